"""A process that dies by SIGKILL in its resolver; started again, it finishes without paying for triage again.

Usage: demo_process_crash.py DATABASE, twice
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from agent_handoff_kit import Pipeline, Relay, Step
from agent_handoff_kit.pipeline import Event

first_start = True


def triage(context: dict[str, Any]) -> dict[str, Any]:
    return {**context, "customer": "C-4", "amount": 500}


def resolver(context: dict[str, Any]) -> dict[str, Any]:
    if first_start:
        print("resolver kills its process", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return {**context, "refund_id": "RF-1"}


def closer(context: dict[str, Any]) -> str:
    return f"ticket {context['ticket_id']} closed with refund {context['refund_id']}"


def show(event: Event) -> None:
    global first_start
    if event.kind == "step_started":
        print(f"{event.step} runs", flush=True)
    elif event.kind == "resumed":
        first_start = False
        print(f"resumed from the last VERIFIED checkpoint, for {event.step}: {event.value}")
    elif event.kind == "replayed":
        print(f"the run is completed: {event.value}")
    elif event.kind == "completed":
        print(f"success, nothing lost: {event.value}")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: demo_process_crash.py DATABASE")
    steps = [
        Step("triage", triage),
        Step("resolver", resolver, required_keys=["ticket_id", "amount"]),
        Step("closer", closer, required_keys=["refund_id"]),
    ]
    with Relay(sys.argv[1]) as relay:
        Pipeline(relay, steps).run("T-1", {"ticket_id": "T-1"}, on_event=show)


if __name__ == "__main__":
    main()
