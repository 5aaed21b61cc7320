"""A streamed run that dies by SIGKILL after the refund; started again, it finishes without asking a model twice.

Usage: demo_streamed_crash.py FOLDER, twice
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from billing_agents import QUESTION, build, scripted_resolver, scripted_triage

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import RunAlreadyCompleted
from agent_handoff_kit.openai_adapter import DurableRunner


async def run(folder: Path) -> None:
    first_start = not (folder / "support.db").exists()
    with Relay(folder / "support.db") as relay:
        triage = build(relay, folder / "ledger.txt", scripted_triage(), scripted_resolver())
        stream = DurableRunner.run_streamed(relay, "ticket-77", triage, QUESTION)
        async for event in stream.stream_events():
            if event.type == "run_item_stream_event":
                print(f"event {event.name}", flush=True)
                if event.name == "tool_output" and first_start:
                    print("the process kills itself", flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)
        print(f"answer: {stream.final_output}")
        print(f"refunds in the ledger: {len((folder / 'ledger.txt').read_text().splitlines())}")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: demo_streamed_crash.py FOLDER")
    try:
        asyncio.run(run(Path(sys.argv[1])))
    except RunAlreadyCompleted as done:
        print(f"the run is completed: {done.result}")


if __name__ == "__main__":
    main()
