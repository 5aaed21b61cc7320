"""What is measured: one way of keeping contexts on disk."""

from __future__ import annotations

import json
from typing import Any, Protocol

Context = dict[str, Any]

CHECKPOINTS_PER_RUN = 10


class Subject(Protocol):
    """A store on one file. Threads may share it."""

    def save(self, run_id: str, context: Context) -> None:
        """Make one context durable, and return when it is."""
        ...

    async def asave(self, run_id: str, context: Context) -> None:
        """Do the same from an event loop."""
        ...

    def grow(self, run_id: str, history: list[Context], new: list[Context], *, whole: bool) -> None:
        """Make a history durable: all of it, or what came since the last call."""
        ...

    def fill(self, runs: int, context: Context) -> None:
        """Write ``CHECKPOINTS_PER_RUN`` contexts for each of many runs, as fast as may be."""
        ...

    def load(self, run: int) -> Context:
        """The newest context of one of the runs that ``fill`` wrote."""
        ...

    def first_call(self, key: str) -> None:
        """Record a call of a tool that does nothing, under a key that was never used."""
        ...

    def repeated_call(self, key: str) -> str:
        """What the call with a key returned."""
        ...

    def close(self) -> None:
        """Leave no file open."""
        ...


def receipt(key: str) -> str:
    """What the tool returns."""
    return f"charged {key}"


def context_of(size: int) -> Context:
    """A state of records whose JSON is about this many bytes."""
    record = {
        "id": 0,
        "role": "user",
        "text": "The customer was charged twice, says the ticket.",
        "eur": 12.5,
        "ok": True,
    }
    count = max(1, size // (len(json.dumps(record)) + 2))
    return {"items": [{**record, "id": number} for number in range(count)]}


def messages_of(hop: int) -> list[Context]:
    """The four messages, of about 490 bytes each, that one hop adds."""
    text = "The customer was charged twice, says the ticket. " * 9
    return [{"role": "user", "content": f"{hop}.{part} {text}"} for part in range(4)]
