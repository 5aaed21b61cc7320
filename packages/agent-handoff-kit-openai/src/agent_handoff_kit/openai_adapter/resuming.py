"""Going on with a run by hand: its last snapshot, or one agent on it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from agent_handoff_kit.core import Relay
from agent_handoff_kit.errors import NothingToResume
from agent_handoff_kit.models import Checkpoint, HandoffStatus, checkpoint_state
from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.checkpoints import point_in
from agent_handoff_kit.openai_adapter.handmade import told
from agent_handoff_kit.openai_adapter.outcome import storable_output

_logger = logging.getLogger(__name__)

Prompt = str | Callable[[dict[str, Any]], str] | None


def resume_run(relay: Relay, run_id: str, *, mark_recovered: bool = False) -> dict[str, Any] | None:
    """The context of the run's last verified checkpoint: an envelope or a flat dict.

    Args:
        relay: where the run is kept.
        run_id: the run.
        mark_recovered: mark the checkpoint RECOVERED, on the caller's word that the run went on past it.

    Returns:
        A copy, or None when nothing is pending.
    """
    found = relay.recover(run_id)
    if found is None:
        return None
    if mark_recovered:
        relay.store.update_status(found.checkpoint_id, HandoffStatus.RECOVERED)
    return dict(found.context)


async def resume_with_agent(
    relay: Relay,
    run_id: str,
    agent: Any,
    *,
    prompt: Prompt = None,
    mark_recovered: bool = True,
    **runner_kwargs: Any,
) -> Any:
    """Run one agent from the run's last verified checkpoint.

    Args:
        relay: where the run is kept.
        run_id: the run.
        agent: the agent to run.
        prompt: its input, or a callable of the state that gives it. By default the input that was captured at the
            handoff; of a checkpoint without one, a text that tells the state.
        mark_recovered: afterwards mark the checkpoint RECOVERED and complete the run with the final output.
        runner_kwargs: further arguments of the SDK's ``Runner.run``; ``context`` is the checkpoint's state by default.

    Returns:
        The SDK's ``RunResult``.

    Raises:
        NothingToResume: the run has no verified checkpoint that is pending.
        RunAlreadyCompleted: the run is completed.
        RunInProgress: another owner works on it.
    """
    async with relay.arun(run_id):
        found = await relay.arecover(run_id)
        if found is None:
            raise NothingToResume(run_id)
        _logger.info("run %s goes on with %r from checkpoint %s", run_id, agent.name, found.checkpoint_id)
        arguments: dict[str, Any] = {"context": checkpoint_state(found), **runner_kwargs}
        result = await _sdk.Runner.run(agent, _input_for(found, prompt), **arguments)
        if mark_recovered and not result.interruptions:
            await relay.acomplete(run_id, storable_output(result.last_agent, result.final_output))
        return result


def _input_for(found: Checkpoint, prompt: Prompt) -> Any:
    if callable(prompt):
        return prompt(checkpoint_state(found))
    if prompt is not None:
        return prompt
    point = point_in(found)
    return told(found) if point is None else list(point.items)
