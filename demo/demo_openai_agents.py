"""guarded_handoff by hand around an agent whose billing tool fails softly: what the runner alone does not resume.

Usage: demo_openai_agents.py [--live]

A tool's soft error goes back to the model and ends no run. Here the receiver looks at the outcome itself, raises,
and is run again from the verified snapshot. Without options it runs offline, on scripted models.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from agents import Agent, Runner, function_tool
from billing_agents import Scripted, call, message, require_key

from agent_handoff_kit import Relay

RUN = "ticket-78"
attempts: list[str] = []


@function_tool
def bill(order: str) -> str:
    """Bill an order."""
    attempts.append(order)
    if len(attempts) == 1:
        raise TimeoutError("the billing system did not answer")
    return f"order {order} is billed"


async def run(path: Path, model: Any) -> None:
    resolver = Agent(name="Resolver", instructions="Bill order 78, then say done.", model=model, tools=[bill])
    with Relay(path) as relay:

        @relay.guarded_handoff(RUN, "triage", "resolver", ["ticket_id"], completes=True)
        async def resolve(context: dict[str, Any]) -> str:
            result = await Runner.run(resolver, f"Bill the order of ticket {context['ticket_id']}.")
            if len(attempts) == 1:
                raise RuntimeError("the bill was not written")
            return str(result.final_output)

        try:
            await resolve({"ticket_id": "T-2"})
        except RuntimeError as error:
            print(f"the resolver failed: {error}")
        snapshot = relay.recover(RUN)
        assert snapshot is not None
        print(f"recovered from the {snapshot.status.value} checkpoint: {snapshot.context}")
        print(f"answer: {await resolve(snapshot.context)}")
        print(f"the billing tool was called {len(attempts)} times, triage never again")


def main() -> None:
    if sys.argv[1:] not in ([], ["--live"]):
        sys.exit("usage: demo_openai_agents.py [--live]")
    logging.getLogger("agent_handoff_kit").setLevel(logging.CRITICAL)
    model: Any = Scripted("resolver", [call("bill", "b1", order="78")], [message("done")])
    if sys.argv[1:]:
        require_key()
        model = None
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) / "billing.db", model))


if __name__ == "__main__":
    main()
