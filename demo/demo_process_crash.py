"""A process that dies by SIGKILL in its resolver; started again, it finishes without paying for triage again.

Usage: demo_process_crash.py DATABASE, twice
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from agent_handoff_kit import Checkpoint, Relay

RUN = "T-1"


def triage(ticket: str) -> dict[str, Any]:
    print("triage runs", flush=True)
    return {"ticket_id": ticket, "customer": "C-4", "amount": 500}


def resolver(context: dict[str, Any], *, crash: bool) -> dict[str, Any]:
    print("resolver runs", flush=True)
    if crash:
        print("resolver kills its process", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return {**context, "refund_id": "RF-1"}


def closer(context: dict[str, Any]) -> str:
    print("closer runs", flush=True)
    return f"ticket {context['ticket_id']} closed with refund {context['refund_id']}"


def start_or_resume(relay: Relay) -> tuple[Checkpoint, bool]:
    found = relay.recover(RUN)
    if found is None:
        return relay.handoff(RUN, "triage", "resolver", triage("T-1"), ["ticket_id"]), True
    print(f"recovered from the last {found.status.value} checkpoint, for {found.to_agent}: {found.context}")
    return found, False


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: demo_process_crash.py DATABASE")
    with Relay(sys.argv[1]) as relay:
        if relay.run_status(RUN) == "completed":
            print(f"the run is completed: {relay.result(RUN)}")
            return
        checkpoint, first_start = start_or_resume(relay)
        if checkpoint.to_agent == "resolver":
            resolved = resolver(checkpoint.context, crash=first_start)
            checkpoint = relay.handoff(RUN, "resolver", "closer", resolved, ["refund_id"])
        result = closer(checkpoint.context)
        relay.complete(RUN, result)
        print(f"success, nothing lost: {result}")


if __name__ == "__main__":
    main()
