"""Plain callables in a row, each handing over to the next, that go on where they stopped."""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from agent_handoff_kit._callables import is_async
from agent_handoff_kit._redaction import redacted
from agent_handoff_kit._shapes import as_type, parameter_type, rebuilder
from agent_handoff_kit.core import Relay
from agent_handoff_kit.errors import (
    CallInDoubt,
    HandoffVerificationError,
    NothingToResume,
    PayloadError,
    RunAlreadyCompleted,
    UnknownAgent,
)
from agent_handoff_kit.handoffs import Parties, Terms, handoff, terms_of
from agent_handoff_kit.inputs import keeping_input, kept_input
from agent_handoff_kit.models import Checkpoint, HandoffStatus, checkpoint_state, context_to_mapping
from agent_handoff_kit.runs import Run
from agent_handoff_kit.serialization import canonical
from agent_handoff_kit.store.requests import Invoke, Plan, perform
from agent_handoff_kit.verification import judge

START = "start"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """One agent of a pipeline.

    Attributes:
        name: its name in checkpoints; unique in the pipeline.
        function: called with the context; returns the context of the next step, the last one the result. Async
            functions need ``Pipeline.arun``.
        required_keys: keys that its context must have.
        schema: a pydantic model, dataclass or TypedDict that its context must satisfy.
        checks: callables of its context that return None or True, or a reason.

    A first parameter that is annotated with a dataclass, TypedDict or pydantic model gets its context as that type
    after a crash, too.
    """

    name: str
    function: Callable[[Any], Any]
    required_keys: Sequence[Any] = ()
    schema: Any = None
    checks: Sequence[Callable[[Any], Any]] = ()

    @property
    def terms(self) -> Terms:
        """What its context must satisfy."""
        return terms_of(self.required_keys, self.schema, self.checks)


@dataclass(frozen=True)
class Event:
    """What a pipeline tells ``on_event``.

    Attributes:
        kind: ``started``, ``resumed``, ``step_started``, ``step_finished``, ``completed``, or ``replayed`` for a run
            that was completed before.
        run_id: the run.
        step: the step that it is about, or None.
        value: the context a step starts with, what it returned, or the run's result.
    """

    kind: str
    run_id: str
    step: str | None = None
    value: Any = None


OnEvent = Callable[[Event], Any]


class Stop(Protocol):
    """What tells a loop to take nothing more: a ``threading.Event`` or an ``asyncio.Event``."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...


class Pipeline:
    """Steps that hand over to one another. The same call after a crash continues at the last verified handoff.

    Args:
        relay: where the run is kept.
        steps: in their order.

    Raises:
        ValueError: there is no step, or two have one name.
        TypeError: a step's keys, schema or checks cannot be used.
    """

    def __init__(self, relay: Relay, steps: Sequence[Step]) -> None:
        names = [step.name for step in steps]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"the steps are named {names}; give at least one, each with a name of its own")
        for step in steps:
            terms_of(step.required_keys, step.schema, step.checks)
        self._relay = relay
        self._steps = tuple(steps)

    def run(
        self,
        run_id: str,
        context: Any,
        *,
        wait: float = 0.0,
        input_key: Callable[[Any], Any] | None = None,
        on_event: OnEvent | None = None,
    ) -> Any:
        """Run the steps, or go on where an earlier call for this run stopped.

        Args:
            run_id: the run. A finished one returns its stored result.
            context: what the first step gets: a dict, dataclass or pydantic model.
            wait: seconds to wait while another owner works on the run.
            input_key: of the context, what must be equal in every call for the run; all of it by default.
            on_event: called with each ``Event``.

        Returns:
            What the last step returned, as the store gives it back.

        Raises:
            RunInProgress: another owner works on the run.
            RunInputMismatch: the run was started with another context.
            HandoffVerificationError: a step's context lacks what the step needs; the step did not run.
            UnknownAgent: the run stopped at a step that the pipeline does not have.
            TypeError: a step is async; use ``arun``.

        What a step raises comes out as it is; the run stays open, and the next call resumes at that step.
        """
        return self._run(run_id, _Given(context_to_mapping(context), context, input_key), wait, on_event or _nobody)

    async def arun(
        self,
        run_id: str,
        context: Any,
        *,
        wait: float = 0.0,
        input_key: Callable[[Any], Any] | None = None,
        on_event: OnEvent | None = None,
    ) -> Any:
        """Awaitable twin of ``run``; steps may be async or not."""
        given = _Given(context_to_mapping(context), context, input_key)
        return await self._arun(run_id, given, wait, on_event or _nobody)

    def resume(self, run_id: str, *, wait: float = 0.0, on_event: OnEvent | None = None) -> Any:
        """Go on with a run from what is kept of it, its starting context too.

        Args:
            run_id: the run. A finished one returns its stored result.
            wait: as for ``run``.
            on_event: as for ``run``.

        Raises:
            NothingToResume: the run was never started.
            RunInProgress, HandoffVerificationError, UnknownAgent, TypeError: as ``run``.
        """
        return self._run(run_id, None, wait, on_event or _nobody)

    async def aresume(self, run_id: str, *, wait: float = 0.0, on_event: OnEvent | None = None) -> Any:
        """Awaitable twin of ``resume``."""
        return await self._arun(run_id, None, wait, on_event or _nobody)

    @staticmethod
    def recover_orphans(
        relay: Relay, build: Callable[[str], Pipeline], *, limit: int | None = None, stop: Stop | None = None
    ) -> list[tuple[str, Any]]:
        """Take over open runs whose owner is gone, one after another, and go on with each.

        Args:
            relay: where the runs are kept.
            build: called with a run id; gives the pipeline that the run was started with.
            limit: how many runs to take; all by default.
            stop: no further run is taken once it is set, such as a ``threading.Event``.

        Returns:
            Each run id with the result of its run, or with the exception that ended it.
        """
        recovered: list[tuple[str, Any]] = []
        while _goes_on(recovered, limit, stop) and (scopes := relay.claim_orphans(1)):
            with scopes[0] as run:
                recovered.append((run.run_id, _outcome(run.run_id, build)))
        return recovered

    @staticmethod
    async def arecover_orphans(
        relay: Relay, build: Callable[[str], Pipeline], *, limit: int | None = None, stop: Stop | None = None
    ) -> list[tuple[str, Any]]:
        """Awaitable twin of ``recover_orphans``."""
        recovered: list[tuple[str, Any]] = []
        while _goes_on(recovered, limit, stop) and (scopes := await relay.aclaim_orphans(1)):
            async with scopes[0] as run:
                recovered.append((run.run_id, await _aoutcome(run.run_id, build)))
        return recovered

    def _run(self, run_id: str, given: _Given | None, wait: float, on_event: OnEvent) -> Any:
        later = [step.name for step in self._steps if is_async(step.function)]
        if later:
            raise TypeError(f"steps {later} are async; use arun or aresume")
        with ExitStack() as scope:
            try:
                run = scope.enter_context(self._relay.run(run_id, wait=wait))
            except RunAlreadyCompleted as done:
                return self._replayed(run_id, on_event, done)
            return perform(self._relay.store.backend, self._steps_of(run, given, on_event))

    async def _arun(self, run_id: str, given: _Given | None, wait: float, on_event: OnEvent) -> Any:
        from agent_handoff_kit.store import awaiting  # brings asyncio

        store = self._relay.store
        async with AsyncExitStack() as scope:
            try:
                run = await scope.enter_async_context(self._relay.arun(run_id, wait=wait))
            except RunAlreadyCompleted as done:
                return self._replayed(run_id, on_event, done)
            return await awaiting.perform_async(store.backend, self._steps_of(run, given, on_event), store.timeout)

    def _replayed(self, run_id: str, on_event: OnEvent, done: RunAlreadyCompleted) -> Any:
        result = rebuilder(self._steps[-1].function, None)(done.result)
        on_event(Event("replayed", run_id, None, result))
        return result

    def _steps_of(self, run: Run, given: _Given | None, on_event: OnEvent) -> Plan[Any]:
        try:
            return (yield from self._from_where_it_stopped(run, given, on_event))
        except CallInDoubt:
            yield from self._relay.store.setting_status(run.run_id, "in_doubt")
            raise

    def _from_where_it_stopped(self, run: Run, given: _Given | None, on_event: OnEvent) -> Plan[Any]:
        start = (yield from self._kept(run)) if given is None else given
        if given is not None:
            yield from _keeping(self._relay, run, given)
        found = yield from self._relay.store.newest_good(run.run_id)
        if found is None:
            index, context = 0, start.context
            self._verify_input(run.run_id, start.mapping)
            on_event(Event("started", run.run_id, None, context))
        elif found.status is HandoffStatus.RECOVERED:
            raise RunAlreadyCompleted(run.run_id)
        else:
            index = self._index_of(run.run_id, found.to_agent)
            context = self._context_of(self._steps[index], found)
            on_event(Event("resumed", run.run_id, found.to_agent, context))
        return (yield from self._from_step(run, on_event, index, context))

    def _kept(self, run: Run) -> Plan[_Given]:
        found = yield from kept_input(self._relay.store, run.run_id)
        if found is None:
            raise NothingToResume(run.run_id)
        mapping = self._relay.store.codec.decode(found[0], f"input of run {run.run_id!r}")
        kind = parameter_type(self._steps[0].function)
        return _Given(mapping, mapping if kind is None else as_type(kind, mapping), None)

    def _from_step(self, run: Run, on_event: OnEvent, index: int, context: Any) -> Plan[Any]:
        for step, receiver in zip(self._steps[index:], (*self._steps[index + 1 :], None), strict=True):
            on_event(Event("step_started", run.run_id, step.name, context))
            context = yield Invoke(functools.partial(step.function, context))
            on_event(Event("step_finished", run.run_id, step.name, context))
            if receiver is not None:
                parties = Parties(run.run_id, step.name, receiver.name)
                yield from handoff(self._relay.store, parties, context, receiver.terms, None, self._relay.redact, None)
        rebuild = rebuilder(self._steps[-1].function, None)
        yield from self._relay.store.complete(run.run_id, context, rebuild, self._relay.redact)
        result = rebuild((yield from self._relay.store.run_result(run.run_id)))
        on_event(Event("completed", run.run_id, None, result))
        return result

    def _verify_input(self, run_id: str, mapping: dict[str, Any]) -> None:
        step = self._steps[0]
        verdict = judge(checkpoint_state(mapping), step.required_keys, step.schema, step.checks)
        if not verdict.ok:
            raise HandoffVerificationError(run_id, START, step.name, verdict.missing, verdict.reasons)

    def _index_of(self, run_id: str, name: str) -> int:
        names = [step.name for step in self._steps]
        if name not in names:
            raise UnknownAgent(run_id, name, names)
        return names.index(name)

    def _context_of(self, step: Step, found: Checkpoint) -> Any:
        kind = parameter_type(step.function)
        return found.context if kind is None else found.context_as(kind)


@dataclass(frozen=True)
class _Given:
    """The starting context of a run, as it is stored and as its first step gets it."""

    mapping: dict[str, Any]
    context: Any
    input_key: Callable[[Any], Any] | None


def _keeping(relay: Relay, run: Run, given: _Given) -> Plan[None]:
    # The first step makes its own type of it, so nothing is lost where a type is not kept.
    data = relay.store.codec.encode(redacted(given.mapping, relay.redact), "context", [])
    identifying = given.mapping if given.input_key is None else given.input_key(given.context)
    yield from keeping_input(run, data, _mark(identifying, data))


def _mark(identifying: Any, data: bytes) -> bytes:
    try:
        return hashlib.sha256(canonical(identifying, root="input")).digest()
    except PayloadError:
        return hashlib.sha256(data).digest()


def _goes_on(recovered: list[tuple[str, Any]], limit: int | None, stop: Stop | None) -> bool:
    return (limit is None or len(recovered) < limit) and (stop is None or not stop.is_set())


def _outcome(run_id: str, build: Callable[[str], Pipeline]) -> Any:
    try:
        return build(run_id).resume(run_id)
    except Exception as error:
        _logger.warning("run %s could not be recovered", run_id, exc_info=True)
        return error


async def _aoutcome(run_id: str, build: Callable[[str], Pipeline]) -> Any:
    try:
        return await build(run_id).aresume(run_id)
    except Exception as error:
        _logger.warning("run %s could not be recovered", run_id, exc_info=True)
        return error


def _nobody(_: Event) -> None:
    """For a caller that wants no events."""
