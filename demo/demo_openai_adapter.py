"""The resolver's model fails after the handoff; the runner resumes it, and the refund happens once.

Usage: demo_openai_adapter.py [--live [--force-crash]]

Without options it runs offline, on scripted models.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from billing_agents import QUESTION, FailsOnce, build, require_key, scripted_resolver, scripted_triage

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import RunAlreadyCompleted
from agent_handoff_kit.openai_adapter import DurableRunner

RUN = "ticket-77"


async def run(folder: Path, triage_model: Any, resolver_model: Any) -> None:
    ledger = folder / "ledger.txt"
    with Relay(folder / "support.db") as relay:
        triage = build(relay, ledger, triage_model, resolver_model)
        result = await DurableRunner.run(
            relay, RUN, triage, QUESTION, required_keys={"Resolver": ["ticket_id"]}, context={"ticket_id": "T-1"}
        )
        print(f"answer: {result.final_output}")
        for one in relay.history(RUN):
            print(f"checkpoint {one.from_agent} -> {one.to_agent}: {one.status.value}")
        print(f"refunds in the ledger: {len(ledger.read_text().splitlines()) if ledger.exists() else 0}")
        try:
            await DurableRunner.run(relay, RUN, triage, QUESTION)
        except RunAlreadyCompleted as done:
            print(f"a second run is refused, and returns what is stored: {done.result}")


def main() -> None:
    options = set(sys.argv[1:])
    if not options <= {"--live", "--force-crash"} or options == {"--force-crash"}:
        sys.exit("usage: demo_openai_adapter.py [--live [--force-crash]]")
    logging.getLogger("agent_handoff_kit").setLevel(logging.ERROR)
    models: tuple[Any, Any] = (scripted_triage(), FailsOnce(scripted_resolver()))
    if options:
        require_key()
        models = (None, FailsOnce() if "--force-crash" in options else None)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder), *models))


if __name__ == "__main__":
    main()
