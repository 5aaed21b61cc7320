"""Three agents in a row without the kit: the resolver times out once, and triage's work is lost."""

from __future__ import annotations

from typing import Any

paid_calls: list[str] = []


def triage(ticket: str) -> dict[str, Any]:
    paid_calls.append("triage")
    return {"ticket_id": ticket, "customer": "C-4", "amount": 500}


def resolver(context: dict[str, Any]) -> dict[str, Any]:
    paid_calls.append("resolver")
    if paid_calls.count("resolver") == 1:
        raise TimeoutError("the billing service did not answer")
    return {**context, "refund_id": "RF-1"}


def closer(context: dict[str, Any]) -> str:
    paid_calls.append("closer")
    return f"ticket {context['ticket_id']} closed with refund {context['refund_id']}"


def main() -> None:
    try:
        context = triage("T-1")
        print(f"triage done: {context}")
        print(closer(resolver(context)))
    except TimeoutError as error:
        print(f"resolver crashed: {error}")
        print("all work is lost: nothing was kept, so the whole pipeline starts again")
    print(closer(resolver(triage("T-1"))))
    print(f"paid calls: {paid_calls}")
    print(f"triage was paid {paid_calls.count('triage')} times")


if __name__ == "__main__":
    main()
