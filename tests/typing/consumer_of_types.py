# Never run, and not part of the project's own mypy and pyright runs: a test hands this file to both as a user's code.
import asyncio
from dataclasses import dataclass
from typing import Any

from agent_handoff_kit import Checkpoint, CheckpointStore, HandoffStatus, Relay, checkpoint_messages, checkpoint_state
from agent_handoff_kit.errors import HandoffKitError, HandoffVerificationError, StoreBusy


@dataclass
class Ticket:
    ticket_id: str


async def awaitable(relay: Relay) -> list[Checkpoint]:
    made: Checkpoint = await relay.ahandoff("r", "a", "b", Ticket("T-1"), ["ticket_id"], schema=Ticket)
    await relay.averify(made)
    found: Checkpoint | None = await relay.arecover("r")
    status: str | None = await relay.arun_status("r")
    print(found, status)
    return await relay.ahistory("r", limit=1)


def blocking(relay: Relay) -> Ticket | None:
    @relay.guarded_handoff("r", "a", "b", ["ticket_id"], completes=True)
    def resolver(context: dict[str, Any]) -> str:
        return str(context["ticket_id"])

    try:
        resolver({"ticket_id": "T-1"})
    except HandoffVerificationError as error:
        print(error.run_id.upper(), error.missing, [reason.upper() for reason in error.reasons])
    except StoreBusy as error:
        print(error.location.upper())
    except HandoffKitError:
        raise
    found = relay.recover("r", to_agent="b")
    if found is None or found.status is not HandoffStatus.VERIFIED:
        return None
    state: dict[str, Any] = checkpoint_state(found)
    messages: list[Any] = checkpoint_messages(found)
    print(state, messages)
    ticket: Ticket = found.state_as(Ticket)
    return ticket


with Relay(CheckpointStore("x"), strict=True) as opened:
    asyncio.run(awaitable(opened))
    ticket = blocking(opened)
    if ticket is not None:
        ticket.nonsense()  # the planted error
