"""The same three agents with the kit: the resolver times out once, and only the resolver runs again.

Usage: demo_with_relay.py [DATABASE]
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent_handoff_kit import Relay

RUN = "T-1"
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


def pipeline(relay: Relay) -> None:
    to_resolver = relay.guarded_handoff(RUN, "triage", "resolver", ["ticket_id", "amount"])
    to_closer = relay.guarded_handoff(RUN, "resolver", "closer", ["refund_id"], completes=True)
    context = triage("T-1")
    print(f"triage done: {context}")
    try:
        resolved = to_resolver(resolver)(context)
    except TimeoutError as error:
        print(f"resolver crashed: {error}")
        found = relay.recover(RUN, to_agent="resolver")
        assert found is not None
        print(f"recovered from the last {found.status.value} checkpoint: {found.context}")
        resolved = resolver(found.context)
    print(f"resolver done: {resolved}")
    print(to_closer(closer)(resolved))
    print(f"paid calls: {paid_calls}")
    print(f"success, nothing lost: triage was paid {paid_calls.count('triage')} time")


def main() -> None:
    # The kit logs the failure with its traceback; here the printed line says enough.
    logging.disable(logging.ERROR)
    database = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp() + "/billing.db")
    print(f"store: {database}")
    with Relay(database) as relay:
        if relay.run_status(RUN) == "completed":
            print(f"the run is completed: {relay.result(RUN)}")
        else:
            pipeline(relay)


if __name__ == "__main__":
    main()
