"""One attempt at a run: where it stands, what the journal knows, and what is still at work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from agent_handoff_kit.core import Relay
from agent_handoff_kit.errors import HandoffKitError
from agent_handoff_kit.journal import Journal
from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.context import ContextPort
from agent_handoff_kit.runs import Run

ROOT = "root"
WITH_CALL = "with:"


class KitFailure(BaseException):
    """Carries an error of the kit through layers that turn exceptions into text for the model."""

    def __init__(self, error: HandoffKitError) -> None:
        super().__init__(error)
        self.error = error


class Scope(NamedTuple):
    """Whose calls these are: an attempt, and the path of nested runs inside it."""

    attempt: Attempt
    path: str


active: ContextVar[Scope | None] = ContextVar("agent_handoff_kit_scope", default=None)


@dataclass
class Records:
    """The journal of one epoch as it was read, and what was added since."""

    epoch: int
    found: dict[str, Any] = field(default_factory=lambda: {})
    used: set[str] = field(default_factory=lambda: set())
    restored: int = -1

    def __post_init__(self) -> None:
        self._places = {key: place for place, key in enumerate(self.found)}
        self._expected = {key for key in self.found if not key.startswith(WITH_CALL)}

    @property
    def exhausted(self) -> bool:
        """Whether all that was recorded has been replayed."""
        return len(self.used) == len(self._expected)

    def take(self, key: str) -> Any:
        """The record under this key from an earlier attempt, or None."""
        if key in self._expected:
            self.used.add(key)
        return self.found.get(key)

    def newest(self, prefix: str) -> str | None:
        """The last written key with this prefix."""
        return max(
            (key for key in self._places if key.startswith(prefix)), key=lambda key: self._places[key], default=None
        )

    def is_ahead(self, key: str) -> bool:
        """Note that a record's context is restored, unless a later one's was."""
        place = self._places.get(key, -1)
        if place <= self.restored:
            return False
        self.restored = place
        return True


@dataclass
class Guardrails:
    """The input guardrails of the starting agent: whether all have spoken, and what stopped one."""

    waiting: int
    passed_before: bool
    stopped_by: BaseException | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        if self.waiting <= 0 or self.passed_before:
            self.settled.set()

    def ended(self, stopped_by: BaseException | None) -> None:
        """Note that one has spoken."""
        self.waiting -= 1
        self.stopped_by = self.stopped_by or stopped_by
        if self.waiting <= 0 or self.stopped_by is not None:
            self.settled.set()


class Announced(NamedTuple):
    """What the callback of a relayed handoff says of the handoff that follows."""

    from_agent: str
    to_agent: str
    required_keys: tuple[Any, ...]
    state: dict[str, Any]


@dataclass
class Pending:
    """A handoff that was verified and is not stored yet: it is, at the receiver's first model call."""

    from_agent: str
    to_name: str
    to_agent: str
    receiver: _sdk.Agent[Any]
    required_keys: tuple[Any, ...]
    state: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    usage: Any = None


class Attempt:
    """The state that hooks, models and tools of one attempt share."""

    def __init__(
        self,
        relay: Relay,
        run: Run,
        port: ContextPort,
        wrapper: _sdk.RunContextWrapper[Any],
        records: Records,
        guardrails: Guardrails,
        *,
        turns_used: int = 0,
        journaling: bool = True,
        on_diverged: str = "raise",
    ) -> None:
        self.relay: Relay = relay
        self.run: Run = run
        self.journal: Journal = Journal(run)
        self.port: ContextPort = port
        self.wrapper: _sdk.RunContextWrapper[Any] = wrapper
        self.records: Records = records
        self.guardrails: Guardrails = guardrails
        self.turns_used: int = turns_used
        self.journaling: bool = journaling
        self.on_diverged: str = on_diverged
        self.announced: Announced | None = None
        self.pending: Pending | None = None
        self.closed: bool = False
        self.from_calls: list[BaseException] = []
        self.from_user: list[BaseException] = []
        self.softened: dict[str, str] = {}
        self.used_tools: set[str] = set()
        self.used_tools_before: frozenset[str] = frozenset()
        self.last_response_id: str | None = None
        self.replayed_models: int = 0
        self.replayed_tools: int = 0
        self.update_context: Callable[[], Any] | None = None
        self._turns: dict[str, int] = {}
        self._occurrences: dict[str, int] = {}
        self._failure: HandoffKitError | None = None
        self._at_work: set[asyncio.Future[Any]] = set()

    @property
    def failure(self) -> HandoffKitError | None:
        """The first error of the kit in this attempt."""
        return self._failure

    def check(self) -> None:
        """Raise the kit's error that ended this attempt, if one did."""
        if self._failure is not None:
            raise self._failure

    def fail(self, error: HandoffKitError) -> NoReturn:
        """Note an error of the kit, so that nothing more is begun, and raise it."""
        self._failure = self._failure or error
        raise error

    def next_turn(self, path: str) -> int:
        """Count a model call of a run loop."""
        self._turns[path] = self._turns.get(path, 0) + 1
        if path == ROOT:
            self.turns_used += 1
        return self._turns[path]

    def turn(self, path: str) -> int:
        """The number of model calls of a run loop since the epoch began."""
        return self._turns.get(path, 0)

    def occurrence(self, key: str) -> int:
        """Count how often a call without a place of its own was made."""
        self._occurrences[key] = self._occurrences.get(key, 0) + 1
        return self._occurrences[key]

    def begin_epoch(self, epoch: int) -> None:
        """Go on after a checkpoint, with an empty journal."""
        self.records = Records(epoch)
        self._turns.clear()
        self._occurrences.clear()
        self.softened.clear()

    def replayed(self) -> None:
        """Note that this attempt repeats what was recorded."""
        self.run.replaying = not self.records.exhausted

    async def leave_replay(self) -> None:
        """Note that this attempt does what was never recorded."""
        self.run.replaying = False
        if self.update_context is not None:
            update, self.update_context = self.update_context, None
            update()

    async def keep(self, records: Mapping[str, Any]) -> None:
        """Record durably what happened.

        Raises:
            HandoffKitError: it could not be recorded; the attempt is over.
        """
        if not self.journaling:
            return
        try:
            await self.settling(self.journal.put(self.records.epoch, records))
        except HandoffKitError as error:
            self.fail(error)
        self.records.found.update(records)

    async def settling(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await work that goes on to its end even if its caller is cancelled."""
        task = asyncio.ensure_future(work)
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)
        return await asyncio.shield(task)

    async def settle(self, seconds: float) -> bool:
        """Wait until everything at work has ended; False if something did not within the time."""
        while self._at_work:
            done, _ = await asyncio.wait(self._at_work, timeout=seconds)
            if not done:
                return False
            # Asked for, so that asyncio does not report it as never looked at.
            _ = [one.exception() for one in done if not one.cancelled()]
        return True

    def restore(self, key: str, record: Mapping[str, Any]) -> None:
        """Put the context of a record into the caller's object, unless a later one is there."""
        if "context" in record and self.records.is_ahead(key):
            self.port.restore(record["context"])
