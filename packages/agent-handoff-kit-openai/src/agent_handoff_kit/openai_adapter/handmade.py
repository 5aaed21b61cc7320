"""Checkpoints that no runner of agents wrote: made by hand, or by an earlier release."""

from __future__ import annotations

import json
from typing import Any

from agent_handoff_kit.core import Relay
from agent_handoff_kit.errors import UnknownAgent
from agent_handoff_kit.models import Checkpoint, HandoffStatus, checkpoint_messages, checkpoint_state
from agent_handoff_kit.openai_adapter.checkpoints import (
    Agents,
    ResumePoint,
    handed_envelope,
    point_in,
    resolve_agent,
)
from agent_handoff_kit.openai_adapter.roster import Roster

_SHOWN = 20


def told(found: Checkpoint) -> str:
    """What an agent is told that goes on from such a checkpoint."""
    parts = ["Go on from the checkpoint of a handoff.", f"State: {json.dumps(checkpoint_state(found), default=str)}"]
    messages = checkpoint_messages(found)
    if messages:
        parts.append(f"Messages so far: {json.dumps(messages[-_SHOWN:], default=str)}")
    return "\n".join(parts)


async def handed_before(
    relay: Relay, run_id: str, roster: Roster, agents: Agents, session_count: int | None
) -> dict[str, Any] | None:
    """What is kept of the start of a run that was handed over before its first call; None where nobody can go on."""
    found = await relay.arecover(run_id)
    if found is None:
        return None
    try:
        resolve_agent(run_id, ResumePoint(0, found.to_agent, found.to_agent, [], None), roster, agents)
    except UnknownAgent:
        return None
    return handed_envelope(found, told(found), session_count)


async def newest_point(relay: Relay, run_id: str) -> ResumePoint | None:
    """The newest resume point of a run, which may have checkpoints made by hand after it."""
    found = await relay.arecover(run_id)
    point = None if found is None else point_in(found)
    if found is None or point is not None:
        return point
    for one in reversed(await relay.ahistory(run_id)):
        if one.status is HandoffStatus.RECOVERED:
            return None
        if one.status is HandoffStatus.VERIFIED and (point := point_in(one)) is not None:
            return point
    return None
