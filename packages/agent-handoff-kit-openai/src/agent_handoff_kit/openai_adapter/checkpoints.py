"""What a checkpoint of a run of agents holds: taken at the receiver's first model call, read on resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_handoff_kit.errors import UnknownAgent
from agent_handoff_kit.models import Checkpoint, checkpoint_state, make_handoff_envelope
from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.attempt import Attempt, Pending
from agent_handoff_kit.openai_adapter.plain import as_dict, as_list
from agent_handoff_kit.openai_adapter.responses import revived_usage, stored_usage
from agent_handoff_kit.openai_adapter.roster import Roster
from agent_handoff_kit.serialization import decode, encode

Agents = Mapping[str, Any] | Callable[[str], Any] | None
START = "start"
_RESUME = "resume"


@dataclass(frozen=True)
class ResumePoint:
    """Where an attempt begins: who is to run, on what, and what was spent before."""

    epoch: int
    agent: str
    to_agent: str
    items: Any
    context: dict[str, Any] | None
    usage: Any = None
    turns_used: int = 0
    used_tools: tuple[str, ...] = ()
    last_response_id: str | None = None
    session_count: int | None = None
    is_start: bool = False

    def usage_so_far(self) -> _sdk.Usage:
        """The usage at the resume point, as an object of its own."""
        return revived_usage(self.usage) or _sdk.Usage()


async def write_checkpoint(attempt: Attempt, pending: Pending, items: list[Any], session_count: int | None) -> None:
    """Store a verified handoff with all that its receiver needs, and begin the journal's next epoch.

    Raises:
        HandoffVerificationError: the context lost since the handoff what the receiver needs.
        StoreError: it could not be stored.
    """
    resume: dict[str, Any] = {
        "agent": pending.to_agent,
        "usage": pending.usage,
        "turns": attempt.turns_used,
        "used_tools": sorted(attempt.used_tools),
        "response_id": attempt.last_response_id,
        "session": session_count,
    }
    if pending.state is not None:
        resume["context"] = pending.context
    envelope = envelope_of(
        pending.from_agent,
        pending.to_name,
        pending.state if pending.state is not None else pending.context or {},
        items,
    )
    envelope["meta"][_RESUME] = resume
    stored = await attempt.relay.ahandoff(
        attempt.run.run_id, pending.from_agent, pending.to_name, envelope, pending.required_keys
    )
    assert stored.seq is not None
    attempt.begin_epoch(stored.seq)


def envelope_of(from_agent: str, to_agent: str, state: dict[str, Any], items: list[Any]) -> dict[str, Any]:
    """The envelope of a handoff; the items are copied, as the SDK keeps on using them."""
    messages: list[Any] = decode(encode(items, max_bytes=2**31))
    return make_handoff_envelope(state, from_agent=from_agent, to_agent=to_agent, messages=messages)


def snapshot(attempt: Attempt, pending: Pending) -> None:
    """Take the context and the usage as the receiver finds them."""
    pending.context = attempt.port.taken()
    pending.usage = stored_usage(attempt.wrapper.usage)


def point_in(checkpoint: Checkpoint) -> ResumePoint | None:
    """The resume point in a checkpoint; None if it was not written by a runner of agents."""
    context = checkpoint.context
    meta = as_dict(context.get("meta"))
    resume = None if meta is None else as_dict(meta.get(_RESUME))
    if resume is None or checkpoint.seq is None:
        return None
    return ResumePoint(
        checkpoint.seq,
        resume["agent"],
        checkpoint.to_agent,
        context["messages"],
        resume.get("context", context["state"]),
        resume["usage"],
        resume["turns"],
        tuple(resume["used_tools"]),
        resume["response_id"],
        resume["session"],
    )


def start_envelope(agent: str, items: Any, context: dict[str, Any], session_count: int | None) -> dict[str, Any]:
    """What is kept of a run's start: its input and context."""
    listed = as_list(items)
    messages = [{"role": "user", "content": items}] if listed is None else listed
    envelope = envelope_of(START, agent, context, messages)
    envelope["meta"][_RESUME] = {"agent": agent, "session": session_count}
    return envelope


def handed_envelope(found: Checkpoint, told: str, session_count: int | None) -> dict[str, Any]:
    """What is kept of the start of a run that begins at the receiver of a checkpoint made before it."""
    items = [{"role": "user", "content": told}]
    envelope = envelope_of(found.from_agent, found.to_agent, checkpoint_state(found), items)
    envelope["meta"][_RESUME] = {"agent": found.to_agent, "session": session_count, "handed": True}
    return envelope


def start_in(envelope: dict[str, Any], given: Any) -> ResumePoint:
    """The resume point at a run's start; the caller's own input, where it is given, is what was kept."""
    resume = envelope["meta"][_RESUME]
    handed = "handed" in resume
    items = envelope["messages"] if given is None or handed else given
    agent, count = resume["agent"], resume["session"]
    return ResumePoint(0, agent, agent, items, envelope["state"], session_count=count, is_start=not handed)


def resolve_agent(run_id: str, point: ResumePoint, roster: Roster, agents: Agents) -> Any:
    """The agent that a run goes on with.

    Raises:
        UnknownAgent: it is neither in the graph nor in ``agents``.
    """
    names = (point.agent, point.to_agent)
    found = next((one for name in names if (one := roster.find(name)) is not None), None)
    if found is None and agents is not None:
        found = next((one for name in names if (one := _looked_up(agents, name)) is not None), None)
    if found is None:
        listed = [*roster.names, *(() if callable(agents) or agents is None else agents)]
        raise UnknownAgent(run_id, point.agent, listed)
    return found


def _looked_up(agents: Mapping[str, Any] | Callable[[str], Any], name: str) -> Any:
    if callable(agents):
        return agents(name)
    lowered = {key.lower(): agent for key, agent in agents.items()}
    return agents.get(name, lowered.get(name.lower()))
