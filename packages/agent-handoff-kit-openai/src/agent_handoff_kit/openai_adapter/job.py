"""One call of the runner: what the caller gave, and each attempt made from it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_handoff_kit.core import Relay
from agent_handoff_kit.errors import NothingToResume
from agent_handoff_kit.inputs import keeping_input, kept_input
from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.approvals import Decision, decisions_in
from agent_handoff_kit.openai_adapter.attempt import ROOT, Attempt, Guardrails, Records, Scope
from agent_handoff_kit.openai_adapter.checkpoints import (
    Agents,
    ResumePoint,
    resolve_agent,
    start_envelope,
    start_in,
)
from agent_handoff_kit.openai_adapter.context import ContextPort
from agent_handoff_kit.openai_adapter.handmade import handed_before, newest_point
from agent_handoff_kit.openai_adapter.hooks import AttemptHooks, input_filter
from agent_handoff_kit.openai_adapter.instrument import (
    blamed,
    instrument_guardrail,
    instrument_model,
    instrument_provider,
)
from agent_handoff_kit.openai_adapter.journal import hash_of
from agent_handoff_kit.openai_adapter.roster import Roster
from agent_handoff_kit.openai_adapter.sessions import SessionProxy
from agent_handoff_kit.openai_adapter.turns import error_handlers, turns_left
from agent_handoff_kit.runs import Run
from agent_handoff_kit.store import awaiting
from agent_handoff_kit.store.requests import Plan

OPTIONS = (
    "agents",
    "required_keys",
    "max_resume_attempts",
    "resume_on",
    "journal",
    "dump",
    "load",
    "on_diverged",
    "serial_tools",
    "update_context",
)
_SERVER_IDS = ("previous_response_id", "auto_previous_response_id", "conversation_id")
_DEFAULT_TURNS = 10


@dataclass
class Job:
    """What a caller of the runner gave; the arguments of ``DurableRunner.run``."""

    relay: Relay
    run_id: str
    starting_agent: _sdk.Agent[Any]
    user_input: Any
    context: Any = None
    agents: Agents = None
    required_keys: Mapping[str, Sequence[Any]] = field(default_factory=lambda: {})
    max_resume_attempts: int = 1
    resume_on: Callable[[BaseException], bool] | None = None
    journal: bool = True
    dump: Callable[[Any], dict[str, Any]] | None = None
    load: Callable[[Any, dict[str, Any]], Any] | None = None
    on_diverged: str = "raise"
    serial_tools: bool = False
    update_context: Callable[[Any], Any] | None = None
    decisions: Sequence[Decision] = ()
    completes: bool = True
    runner_kwargs: dict[str, Any] = field(default_factory=lambda: {})

    def __post_init__(self) -> None:
        if self.on_diverged not in ("raise", "replay", "call"):
            raise ValueError(f"on_diverged is {self.on_diverged!r}; give 'raise', 'replay' or 'call'")
        hooks = self.runner_kwargs.get("hooks")
        if hooks is not None and not isinstance(hooks, _sdk.RunHooksBase):
            raise TypeError(f"hooks must be RunHooks, not {type(hooks).__name__}; AgentHooks belong to an agent")
        state = _sdk.as_state(self.user_input)
        if state is not None:
            self.decisions = (*self.decisions, *decisions_in(state))
            self.user_input = None
        self.app_context: Any = getattr(self.context, "context", None) if self.has_wrapper else self.context
        self.port: ContextPort = ContextPort(self.app_context, self.dump, self.load, self.relay.store.codec.types)
        self.initial: dict[str, Any] = self.port.taken()
        self.roster: Roster = Roster(self.starting_agent)
        given = self.runner_kwargs.pop("run_config", None)
        self.owns_provider: bool = given is None or (isinstance(given, dict) and "model_provider" not in given)
        self.config: _sdk.RunConfig = _sdk.run_config(given)
        self.session: Any = self.runner_kwargs.pop("session", None)
        self.max_turns: int | None = self.runner_kwargs.pop("max_turns", _DEFAULT_TURNS)

    @property
    def has_wrapper(self) -> bool:
        """Whether the caller gave the SDK's wrapper around the context."""
        return isinstance(self.context, _sdk.RunContextWrapper)


@dataclass
class Call:
    """An attempt, and the arguments that the SDK's runner is to be called with for it."""

    attempt: Attempt
    agent: _sdk.Agent[Any]
    items: Any
    arguments: dict[str, Any]
    resumed: bool
    guardrails_skipped: bool

    @property
    def continued(self) -> dict[str, Any]:
        """The arguments for the rest of an attempt that goes on from the SDK's own state."""
        left_out = ("context", "max_turns", *_SERVER_IDS)
        return {name: value for name, value in self.arguments.items() if name not in left_out}


async def kept_start(job: Job, run: Run) -> ResumePoint:
    """Keep the run's input at its first start, and give the resume point there.

    Raises:
        NothingToResume: no input is given, and the run was never started.
        RunInputMismatch: the run was started with other input.
    """
    found = await perform(job, kept_input(job.relay.store, run.run_id))
    given = job.user_input
    if found is not None:
        data, mark = found
        envelope = job.relay.store.codec.decode(data)
    elif given is None:
        raise NothingToResume(run.run_id)
    else:
        count = None if job.session is None else len(await job.session.get_items())
        envelope = await handed_before(job.relay, run.run_id, job.roster, job.agents, count)
        if envelope is None:
            envelope = start_envelope(job.roster.name_of(job.starting_agent), given, job.initial, count)
        data, mark = job.relay.store.codec.encode(envelope, "input"), b""
    await perform(job, keeping_input(run, data, mark if given is None else _mark(given)))
    return start_in(envelope, given)


async def next_call(job: Job, run: Run, start: ResumePoint) -> Call:
    """Everything for the next attempt: from the newest handoff, or from the start.

    Raises:
        UnknownAgent: the agent to go on with is not at hand.
    """
    point = await newest_point(job.relay, run.run_id) or start
    agent = job.starting_agent if point.is_start else resolve_agent(run.run_id, point, job.roster, job.agents)
    job.roster.join(agent)
    return await _call_from(job, run, point, agent)


async def perform(job: Job, plan: Plan[Any]) -> Any:
    """Run a plan on the job's store."""
    return await awaiting.perform_async(job.relay.store.backend, plan, job.relay.store.timeout)


async def _call_from(job: Job, run: Run, point: ResumePoint, agent: _sdk.Agent[Any]) -> Call:
    if point.context is not None:
        job.port.restore(point.context)
    attempt = await _attempt(job, run, point, agent)
    session = None
    if job.session is not None:
        captured = None if point.is_start else point.items
        session = await SessionProxy.open(job.session, point.session_count, captured)
    return Call(
        attempt,
        agent,
        point.items if point.is_start or session is None else [],
        _arguments(job, attempt, point, session),
        resumed=not point.is_start or not attempt.records.exhausted,
        guardrails_skipped=attempt.guardrails.passed_before,
    )


async def _attempt(job: Job, run: Run, point: ResumePoint, agent: _sdk.Agent[Any]) -> Attempt:
    wrapper = job.context if job.has_wrapper else _sdk.RunContextWrapper(context=job.app_context)
    wrapper.usage = point.usage_so_far()
    guardrails = [*agent.input_guardrails, *(job.config.input_guardrails or [])]
    for one in guardrails:
        instrument_guardrail(one)
    attempt = Attempt(
        job.relay,
        run,
        job.port,
        wrapper,
        Records(point.epoch),
        Guardrails(len(guardrails), not point.is_start),
        turns_used=point.turns_used,
        journaling=job.journal,
        on_diverged=job.on_diverged,
    )
    if job.journal:
        attempt.records = Records(point.epoch, await attempt.journal.load(point.epoch))
    attempt.used_tools = set(point.used_tools)
    attempt.used_tools_before = frozenset(point.used_tools)
    attempt.last_response_id = point.last_response_id
    if job.update_context is not None:
        attempt.update_context = functools.partial(job.update_context, job.app_context)
    attempt.replayed()
    return attempt


def _arguments(job: Job, attempt: Attempt, point: ResumePoint, session: SessionProxy | None) -> dict[str, Any]:
    hooks = AttemptHooks(attempt, job.roster, job.required_keys, job.runner_kwargs.get("hooks"))
    config = dataclasses.replace(job.config, **_changes(job, point, session))
    instrument_provider(config.model_provider)
    if isinstance(config.model, _sdk.Model):
        instrument_model(config.model)
    arguments = {**job.runner_kwargs, "hooks": hooks, "run_config": config, "context": attempt.wrapper}
    arguments["max_turns"] = turns_left(job.max_turns, point.turns_used)
    if job.runner_kwargs.get("error_handlers"):
        arguments["error_handlers"] = error_handlers(job.runner_kwargs["error_handlers"], job.max_turns)
    if session is not None:
        arguments["session"] = session
    return {**arguments, **_server_ids(job, point)}


def _changes(job: Job, point: ResumePoint, session: SessionProxy | None) -> dict[str, Any]:
    user_filter = job.config.call_model_input_filter
    count = (lambda: None) if session is None else (lambda: session.count)
    changes: dict[str, Any] = {"call_model_input_filter": input_filter(user_filter, count)}
    if job.config.handoff_input_filter is not None:
        changes["handoff_input_filter"] = blamed(job.config.handoff_input_filter)
    if job.config.group_id is None:
        changes["group_id"] = job.run_id
    if session is not None and not point.is_start:
        # What the session holds up to here is in the captured items already.
        changes["session_input_callback"] = _Captured(point.items)
    if job.serial_tools:
        changes["tool_execution"] = _sdk.serial_tools(job.config.tool_execution)
    return changes


@dataclass(frozen=True)
class _Captured:
    """Gives the captured items in place of what a session holds."""

    items: list[Any]

    def __call__(self, history: Any, new: Any) -> list[Any]:
        return list(self.items)


def _server_ids(job: Job, point: ResumePoint) -> dict[str, Any]:
    given = {name: job.runner_kwargs[name] for name in _SERVER_IDS if job.runner_kwargs.get(name)}
    if not given or point.is_start or "conversation_id" in given:
        return given
    return {**given, "previous_response_id": point.last_response_id}


def _mark(user_input: Any) -> bytes:
    items = [{"role": "user", "content": user_input}] if isinstance(user_input, str) else user_input
    return hashlib.sha256(hash_of(items).encode()).digest()


def scope_of(attempt: Attempt) -> Scope:
    """The scope of a run loop of its own."""
    return Scope(attempt, ROOT)
