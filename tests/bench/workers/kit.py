"""The kit as it is in this repository."""

from __future__ import annotations

import asyncio

from agent_handoff_kit import Relay, make_handoff_envelope
from agent_handoff_kit.idempotency import idempotent_tool

from .serving import serve
from .subject import CHECKPOINTS_PER_RUN, Context, receipt


class Kit:
    """One relay for all threads and tasks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._relay = Relay(path)
        self._tool = idempotent_tool(self._relay, "r", key_fn=lambda key: key)(receipt)

    def save(self, run_id: str, context: Context) -> None:
        self._relay.handoff(run_id, "a", "b", context, ["items"])

    async def asave(self, run_id: str, context: Context) -> None:
        await self._relay.ahandoff(run_id, "a", "b", context, ["items"])

    def grow(self, run_id: str, history: list[Context], new: list[Context], *, whole: bool) -> None:
        if whole:
            envelope = make_handoff_envelope({}, from_agent="a", to_agent="b", messages=history)
            self._relay.handoff(run_id, "a", "b", envelope)
        else:
            self._relay.handoff(run_id, "a", "b", {}, new_messages=new)

    def fill(self, runs: int, context: Context) -> None:
        asyncio.run(self._fill(runs, context))

    async def _fill(self, runs: int, context: Context) -> None:
        async with Relay(self._path, durability="os") as relay:
            for run in range(runs):
                names = [f"r{run}"] * CHECKPOINTS_PER_RUN
                await asyncio.gather(*(relay.ahandoff(name, "a", "b", context) for name in names))

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
        self._relay.close()


if __name__ == "__main__":
    serve(Kit)
