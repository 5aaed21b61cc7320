"""A streamed run that spans attempts: one iterator, each event once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.attempts import Attempts
from agent_handoff_kit.openai_adapter.job import Call
from agent_handoff_kit.openai_adapter.journal import hash_of
from agent_handoff_kit.openai_adapter.plain import as_plain

_END = object()


@dataclass(frozen=True)
class RunResumedEvent:
    """The run failed and goes on; what the model had begun to say is void.

    Args:
        agent: the agent that goes on.
        attempt: how often the run was resumed in this call.
        void_events: how many raw events, the last ones delivered, are of a response that was cut off.
    """

    agent: Any
    attempt: int
    void_events: int
    type: Literal["run_resumed_event"] = "run_resumed_event"


class Stopped(BaseException):
    """The reader stopped the run; it stays open."""


class Delivered:
    """Which events the reader has, so that a replay does not deliver them again."""

    def __init__(self) -> None:
        self.void: int = 0
        self._epoch = 0
        self._now: Counter[str] = Counter()
        self._again: Counter[str] = Counter()
        self._agent: Any = None

    def begin(self, epoch: int) -> None:
        """Begin an attempt; the events since its epoch began come once more."""
        self._note_epoch(epoch)
        self._again = Counter(self._now)
        self.void = 0

    def is_due(self, event: Any, epoch: int) -> bool:
        """Whether the reader has not had this event; it is noted as delivered."""
        if event.type == "agent_updated_stream_event":
            repeated, self._agent = event.new_agent is self._agent, event.new_agent
            return not repeated
        key = _key_of(event)
        if key is None:
            self.void += 1
            return True
        self._note_epoch(epoch)
        self.void = 0
        if self._again[key] > 0:
            self._again[key] -= 1
            return False
        self._now[key] += 1
        return True

    def _note_epoch(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch = epoch
            self._now.clear()
            self._again.clear()


class DurableStream(_sdk.RunResultStreaming):
    """The SDK's streamed result of a run that may take several attempts; it shows the current one.

    Nothing happens before ``stream_events`` is read. All errors come out of it.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._current_result: Any = None
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._driver: asyncio.Task[Any] | None = None
        self._stopped = False
        self._resumed = 0
        self._delivered = Delivered()

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or name.startswith("__"):
            return object.__getattribute__(self, name)
        current = object.__getattribute__(self, "_current_result")
        if current is not None:
            return getattr(current, name)
        before: dict[str, Any] = object.__getattribute__(self, "_before")()
        return before[name] if name in before else object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(current={self._current_result!r})"

    async def stream_events(self) -> AsyncIterator[Any]:
        """The events of the run, those of its later attempts as well, each once.

        Closing the iterator stops the run, which stays open.

        Raises:
            Exception: whatever ``DurableRunner.run`` raises.
        """
        driver = self._begun()
        try:
            while (event := await self._events.get()) is not _END:
                try:
                    yield event
                finally:
                    self._events.task_done()
            await driver
        finally:
            await self._ended(driver)

    def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop the run, at once or after its turn; it stays open and can be resumed."""
        self._stopped = True
        if self._current_result is not None:
            self._current_result.cancel(mode)

    def _begun(self) -> asyncio.Task[Any]:
        if self._driver is None:
            self._driver = asyncio.ensure_future(self._drive())
            self._driver.add_done_callback(lambda _: self._events.put_nowait(_END))
        return self._driver

    async def _ended(self, driver: asyncio.Task[Any]) -> None:
        if not driver.done():
            self.cancel()
            driver.cancel()
            await asyncio.wait({driver})
        if not driver.cancelled():
            driver.exception()

    async def _drive(self) -> None:
        with contextlib.suppress(Stopped):
            await self._attempts.run(self._executed, self._told_of_resume)

    async def _executed(self, call: Call, agent: Any, items: Any, arguments: dict[str, Any]) -> Any:
        if self._stopped:
            raise Stopped
        self._delivered.begin(call.attempt.records.epoch)
        result = self._current_result = _sdk.Runner.run_streamed(agent, items, **arguments)
        try:
            async for event in result.stream_events():
                if self._delivered.is_due(event, call.attempt.records.epoch):
                    await self._handed(event)
        finally:
            await _come_to_rest(result)
        if self._stopped and result.final_output is None and not result.interruptions:
            raise Stopped
        if (task := getattr(result, "run_loop_task", None)) is not None and task.cancelled():
            # The SDK's stream ends without a word then.
            raise asyncio.CancelledError("the run was cancelled from inside")
        return result

    async def _told_of_resume(self, call: Call) -> None:
        self._resumed += 1
        await self._handed(RunResumedEvent(call.agent, self._resumed, self._delivered.void))

    async def _handed(self, event: Any) -> None:
        # The SDK holds the run at turn boundaries until its reader has dealt with the events.
        self._events.put_nowait(event)
        await self._events.join()

    def _before(self) -> dict[str, Any]:
        job = self._attempts.job
        return {
            "input": job.user_input,
            "new_items": [],
            "raw_responses": [],
            "final_output": None,
            "interruptions": [],
            "is_complete": False,
            "current_agent": job.starting_agent,
            "last_agent": job.starting_agent,
            "current_turn": 0,
            "max_turns": job.max_turns,
            "last_response_id": None,
            "input_guardrail_results": [],
            "output_guardrail_results": [],
        }


_OWN = frozenset(
    {
        "stream_events",
        "cancel",
        "_attempts",
        "_current_result",
        "_events",
        "_driver",
        "_stopped",
        "_resumed",
        "_delivered",
        "_begun",
        "_ended",
        "_drive",
        "_executed",
        "_told_of_resume",
        "_handed",
        "_before",
    }
)


async def _come_to_rest(result: Any) -> None:
    """Wait for the run loop, so that nothing of it writes after the lease is gone."""
    task = getattr(result, "run_loop_task", None)
    if task is None or task.done():
        return
    result.cancel()
    await asyncio.wait({task})


def _key_of(event: Any) -> str | None:
    """What tells an event from others; None for a part of a response, which has no place of its own."""
    if event.type == "run_item_stream_event":
        return hash_of([event.name, _told(event.item)])
    if event.type == "raw_response_event" and getattr(event.data, "type", "") == "response.completed":
        return hash_of(["completed", event.data.response.id, list(event.data.response.output)])
    return None


def _told(item: Any) -> Any:
    return as_plain(item.raw_item)
