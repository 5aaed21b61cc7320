"""The published 0.1.0; runs on the interpreter of an environment that has it."""

from __future__ import annotations

import contextlib
import sqlite3

from agent_handoff_kit import Checkpoint, HandoffStatus, Relay, make_handoff_envelope
from agent_handoff_kit.idempotency import idempotent_tool

from .serving import serve
from .subject import CHECKPOINTS_PER_RUN, Context, receipt

_INSERT = "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Published:
    """Checkpoint, then verify; it has no other way, and no awaitable one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._relay = Relay(path)
        self._tool = idempotent_tool(self._relay, "r", key_fn=lambda key: key)(receipt)

    def save(self, run_id: str, context: Context) -> None:
        self._relay.verify(self._relay.checkpoint(run_id, "a", "b", context, ["items"]))

    async def asave(self, run_id: str, context: Context) -> None:
        self.save(run_id, context)

    def grow(self, run_id: str, history: list[Context], new: list[Context], *, whole: bool) -> None:
        del new, whole
        envelope = make_handoff_envelope({}, from_agent="a", to_agent="b", messages=history)
        self._relay.verify(self._relay.checkpoint(run_id, "a", "b", envelope, []))

    def fill(self, runs: int, context: Context) -> None:
        made = (
            Checkpoint(f"r{run}", "a", "b", context, [], created_at=float(number), status=HandoffStatus.VERIFIED)
            for run in range(runs)
            for number in range(CHECKPOINTS_PER_RUN)
        )
        with contextlib.closing(sqlite3.connect(self._path)) as connection, connection:
            connection.executemany(_INSERT, (one.to_row() for one in made))

    def load(self, run: int) -> Context:
        found = self._relay.recover(f"r{run}")
        assert found is not None
        return found.context

    def first_call(self, key: str) -> None:
        self._tool(key)

    def repeated_call(self, key: str) -> str:
        found: str = self._tool(key)
        return found

    def close(self) -> None:
        """It keeps nothing open."""


if __name__ == "__main__":
    serve(Published)
