"""The end of a run: its final output is kept with the run's completion."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from agent_handoff_kit.core import Relay
from agent_handoff_kit.journal import WHOLE_RUN
from agent_handoff_kit.models import HandoffStatus
from agent_handoff_kit.openai_adapter.checkpoints import Agents, point_in, resolve_agent
from agent_handoff_kit.openai_adapter.job import Call, Job, perform
from agent_handoff_kit.openai_adapter.responses import stored_usage
from agent_handoff_kit.openai_adapter.roster import Roster

OUTCOME = "outcome"
_GOOD = (HandoffStatus.VERIFIED, HandoffStatus.RECOVERED)


async def finish(job: Job, call: Call, result: Any) -> Any:
    """Complete the run with its final output.

    Raises:
        PayloadError: the final output cannot be stored.
    """
    attempt = call.attempt
    if not job.completes:
        return result
    if call.guardrails_skipped:
        result.input_guardrail_results = []
    told = {
        "agent": job.roster.name_of(result.last_agent),
        "turns": attempt.turns_used,
        "usage": stored_usage(result.context_wrapper.usage),
    }
    records = attempt.journal.encoded(WHOLE_RUN, {OUTCOME: told})
    output = storable_output(result.last_agent, result.final_output)
    await perform(job, job.relay.store.complete(job.run_id, output, redact=job.relay.redact, records=records))
    return result


async def stored_result(relay: Relay, run_id: str, starting_agent: Any, agents: Agents) -> Any:
    """The final output of a completed run, validated as the last agent's output type; None for another run."""
    if await relay.arun_status(run_id) != "completed":
        return None
    stored = await relay.aresult(run_id)
    passed = [one for one in await relay.ahistory(run_id) if one.status in _GOOD]
    # Handoffs of the application's own may lie above the one to the last agent.
    point = next((one for handed in reversed(passed) if (one := point_in(handed)) is not None), None)
    if point is None:
        return revived_output(starting_agent, stored)
    return revived_output(resolve_agent(run_id, point, Roster(starting_agent), agents), stored)


def storable_output(agent: Any, output: Any) -> Any:
    """A final output as plain data, by the agent's output type."""
    kind = getattr(agent, "output_type", None)
    if not isinstance(kind, type) or isinstance(output, (str, type(None))):
        return output
    return TypeAdapter(kind).dump_python(output, mode="json")


def revived_output(agent: Any, stored: Any) -> Any:
    """The final output that was stored, validated as the agent's output type."""
    kind = getattr(agent, "output_type", None)
    return stored if not isinstance(kind, type) or kind is str else TypeAdapter(kind).validate_python(stored)
