"""DurableRunner: the SDK's runner, whose runs go on after a crash anywhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_handoff_kit.core import Relay
from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.approvals import Decision, decided
from agent_handoff_kit.openai_adapter.attempts import Attempts
from agent_handoff_kit.openai_adapter.checkpoints import Agents
from agent_handoff_kit.openai_adapter.job import OPTIONS, Call, Job
from agent_handoff_kit.openai_adapter.outcome import stored_result
from agent_handoff_kit.openai_adapter.streaming import DurableStream
from agent_handoff_kit.pipeline import Stop

_logger = logging.getLogger(__name__)


class DurableRunner:
    """The SDK's ``Runner`` with a run id: each handoff is checkpointed, each paid response and tool result recorded."""

    @staticmethod
    async def run(
        relay: Relay,
        run_id: str,
        starting_agent: Any,
        user_input: Any,
        *,
        context: Any = None,
        agents: Agents = None,
        required_keys: Mapping[str, Sequence[Any]] | None = None,
        max_resume_attempts: int = 1,
        resume_on: Callable[[BaseException], bool] | None = None,
        journal: bool = True,
        dump: Callable[[Any], dict[str, Any]] | None = None,
        load: Callable[[Any, dict[str, Any]], Any] | None = None,
        on_diverged: str = "raise",
        serial_tools: bool = False,
        **runner_kwargs: Any,
    ) -> Any:
        """Run the agents, or go on where an earlier call for this run stopped.

        Args:
            relay: where the run is kept.
            run_id: the run.
            starting_agent: the first agent.
            user_input: text or a list of items, the same in every call for the run.
            context: the application's context: a dict, dataclass or pydantic model, or anything with ``dump`` and
                ``load``. On resume it is restored into this very object.
            agents: further agents that the run may go on with, by name: a mapping, or a callable of the name.
            required_keys: what each receiver, by its name, needs in the context.
            max_resume_attempts: how often a failed run is resumed within this call.
            resume_on: tells of an error whether the run is to be resumed; by default passing failures of models,
                tools and networks.
            journal: record model responses and tool results between handoffs.
            dump: gives the context as a dict.
            load: puts such a dict into the context.
            on_diverged: what to do when a replayed run would ask a model other than was recorded: ``"raise"``,
                ``"replay"`` the recorded response, or ``"call"`` the model.
            serial_tools: run the tools of a turn one after another, so that the context is exact inside a turn.
            runner_kwargs: the further arguments of the SDK's ``Runner.run``.

        Returns:
            The SDK's ``RunResult``. One with ``interruptions`` waits for approvals.

        Raises:
            RunAlreadyCompleted: the run is completed; carries its stored result.
            RunInProgress: another owner works on it.
            RunInputMismatch: it was started with other input.
            HandoffVerificationError: a receiver's context lacks what it needs; the receiver did not run.
            UnknownAgent: the run goes on at an agent that is not at hand.
            RunDiverged: the replay would go another way.
            TypeError: the context cannot be restored in place.

        What the agents raise comes out as it is once the run cannot be resumed; the run stays open.
        """
        own: dict[str, Any] = {
            "agents": agents,
            "required_keys": required_keys or {},
            "max_resume_attempts": max_resume_attempts,
            "resume_on": resume_on,
            "journal": journal,
            "dump": dump,
            "load": load,
            "on_diverged": on_diverged,
            "serial_tools": serial_tools,
        }
        job = _job(relay, run_id, starting_agent, user_input, context, {**own, **runner_kwargs})
        return await Attempts(job).run(_executed)

    @staticmethod
    def run_sync(relay: Relay, run_id: str, starting_agent: Any, user_input: Any, **kwargs: Any) -> Any:
        """``run`` for code without an event loop; arguments and errors are the same."""
        return asyncio.run(DurableRunner.run(relay, run_id, starting_agent, user_input, **kwargs))

    @staticmethod
    def run_streamed(
        relay: Relay, run_id: str, starting_agent: Any, user_input: Any, *, context: Any = None, **kwargs: Any
    ) -> DurableStream:
        """``run``, streamed: a plain call without input or output, whose events are read from the result.

        Args:
            relay: where the run is kept.
            run_id: the run.
            starting_agent: the first agent.
            user_input: as for ``run``.
            context: as for ``run``.
            kwargs: the further arguments of ``run``.

        Returns:
            A ``RunResultStreaming`` that shows the current attempt. Its one iterator spans all attempts: an event that
            was delivered is not delivered again, and a ``RunResumedEvent`` says what is void.
        """
        return DurableStream(Attempts(_job(relay, run_id, starting_agent, user_input, context, kwargs)))

    @staticmethod
    async def resume(
        relay: Relay,
        run_id: str,
        starting_agent: Any,
        *,
        approve: Sequence[Any] = (),
        reject: Sequence[Any] = (),
        always: bool = False,
        rejection_message: str | None = None,
        context: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Go on with a run from what is kept of it, its input too.

        Args:
            relay: where the run is kept.
            run_id: the run.
            starting_agent: the agent that the run was started with.
            approve: tool calls that may run, each its call id or the waiting item.
            reject: tool calls that may not.
            always: the decisions hold for every later call of those tools as well.
            rejection_message: what the model is told of a rejected call.
            context: as for ``run``; an empty dict by default, into which the kept context is put.
            kwargs: as for ``run``; also ``update_context``, called with the context where the replay ends, so that a
                run which failed verification can go on.

        Raises:
            AlreadyDecided: another decision on one of the calls is stored.
            NothingToResume: the run was never started.
            RunAlreadyCompleted, RunInProgress, UnknownAgent, RunDiverged: as ``run``.
        """
        decisions = (
            *decided(approve, approved=True, always=always),
            *decided(reject, approved=False, always=always, message=rejection_message),
        )
        job = _job(relay, run_id, starting_agent, None, {} if context is None else context, kwargs, decisions)
        return await Attempts(job).run(_executed)

    @staticmethod
    async def recover_orphans(
        relay: Relay, build: Callable[[str], Any], *, limit: int | None = None, stop: Stop | None = None
    ) -> list[tuple[str, Any]]:
        """Take over open runs whose owner is gone, one after another, and go on with each.

        Args:
            relay: where the runs are kept.
            build: called with a run id; gives the agent that the run was started with, or that agent and a dict of
                further arguments of ``resume``.
            limit: how many runs to take; all by default.
            stop: no further run is taken once it is set, such as an ``asyncio.Event``.

        Returns:
            Each run id with the result of its run, or with the exception that ended it.
        """
        recovered: list[tuple[str, Any]] = []
        while limit is None or len(recovered) < limit:
            if stop is not None and stop.is_set():
                break
            scopes = await relay.aclaim_orphans(1)
            if not scopes:
                break
            async with scopes[0] as run:
                recovered.append((run.run_id, await _recovered(relay, run.run_id, build)))
        return recovered

    @staticmethod
    async def result(relay: Relay, run_id: str, starting_agent: Any, *, agents: Agents = None) -> Any:
        """The stored final output of a completed run, as the last agent's output type.

        Args:
            relay: where the run is kept.
            run_id: the run.
            starting_agent: the agent that the run was started with.
            agents: as for ``run``.

        Returns:
            The final output; None for a run that is not completed.

        Raises:
            UnknownAgent: the last agent is not at hand.
        """
        return await stored_result(relay, run_id, starting_agent, agents)


def _job(
    relay: Relay,
    run_id: str,
    starting_agent: Any,
    user_input: Any,
    context: Any,
    given: dict[str, Any],
    decisions: Sequence[Decision] = (),
) -> Job:
    own = {name: given.pop(name) for name in OPTIONS if name in given}
    return Job(relay, run_id, starting_agent, user_input, context, decisions=decisions, runner_kwargs=given, **own)


async def _recovered(relay: Relay, run_id: str, build: Callable[[str], Any]) -> Any:
    try:
        agent, options = _parts_of(build(run_id))
        return await DurableRunner.resume(relay, run_id, agent, **options)
    except Exception as error:
        _logger.warning("run %s could not be recovered", run_id, exc_info=True)
        return error


def _parts_of(built: Any) -> tuple[Any, dict[str, Any]]:
    return (built, {}) if hasattr(built, "handoffs") else built


async def _executed(call: Call, agent: Any, items: Any, arguments: dict[str, Any]) -> Any:
    return await _sdk.Runner.run(agent, items, **arguments)
