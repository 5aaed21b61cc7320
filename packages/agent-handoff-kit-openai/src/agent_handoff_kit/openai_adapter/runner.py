"""DurableRunner: the SDK's runner, whose runs go on after a crash anywhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_handoff_kit.core import Relay
from agent_handoff_kit.errors import CallInDoubt
from agent_handoff_kit.journal import Journal
from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.approvals import apply_decisions, keep_decisions, kept_decisions
from agent_handoff_kit.openai_adapter.attempt import KitFailure, active
from agent_handoff_kit.openai_adapter.checkpoints import Agents, ResumePoint
from agent_handoff_kit.openai_adapter.failures import is_resumable
from agent_handoff_kit.openai_adapter.job import Call, Job, kept_start, next_call, perform, scope_of
from agent_handoff_kit.openai_adapter.outcome import finish
from agent_handoff_kit.runs import Run

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
        job = Job(
            relay,
            run_id,
            starting_agent,
            user_input,
            context,
            agents,
            required_keys or {},
            max_resume_attempts,
            resume_on,
            journal,
            dump,
            load,
            on_diverged,
            serial_tools,
            runner_kwargs=runner_kwargs,
        )
        return await _run(job)

    @staticmethod
    def run_sync(relay: Relay, run_id: str, starting_agent: Any, user_input: Any, **kwargs: Any) -> Any:
        """``run`` for code without an event loop; arguments and errors are the same."""
        return asyncio.run(DurableRunner.run(relay, run_id, starting_agent, user_input, **kwargs))


async def _run(job: Job) -> Any:
    try:
        async with job.relay.arun(job.run_id) as run:
            start = await kept_start(job, run)
            await keep_decisions(Journal(run), job.decisions)
            return await _attempts(job, run, start)
    finally:
        if job.owns_provider:
            await job.config.model_provider.aclose()


async def _attempts(job: Job, run: Run, start: ResumePoint) -> Any:
    left = job.max_resume_attempts
    while True:
        call = await next_call(job, run, start)
        try:
            return await _attempted(job, call)
        except BaseException as error:
            settled = await call.attempt.settle(run.ttl)
            raised = original(call, error)
            if not settled or left < 1 or not _may_resume(job, call, raised):
                await _noted(job, raised)
                raise raised from raised.__cause__
            left -= 1
            _logger.warning("run %s failed and is resumed: %r", run.run_id, raised)
        finally:
            call.attempt.closed = True


async def _attempted(job: Job, call: Call) -> Any:
    token = active.set(scope_of(call.attempt))
    try:
        result = await _sdk.Runner.run(call.agent, call.items, **call.arguments)
        while result.interruptions and (state := await _decided_state(job, call, result)) is not None:
            result = await _sdk.Runner.run(call.agent, state, **call.continued)
    finally:
        active.reset(token)
    call.attempt.check()
    await call.attempt.settle(call.attempt.run.ttl)
    if result.interruptions:
        await _set_status(job, "waiting")
        return result
    return await finish(job, call, result)


async def _decided_state(job: Job, call: Call, result: Any) -> Any:
    """The state of a waiting run with the decisions that are stored; None if there is none on what it waits for."""
    call.attempt.check()
    state = result.to_state()
    if not apply_decisions(state, await kept_decisions(call.attempt.journal)):
        return None
    await _set_status(job, "open")
    return state


def original(call: Call, error: BaseException) -> BaseException:
    """The error that ended the attempt: the kit's own before what it was turned into."""
    if call.attempt.failure is not None:
        return call.attempt.failure
    return error.error if isinstance(error, KitFailure) else error


def _may_resume(job: Job, call: Call, error: BaseException) -> bool:
    if not isinstance(error, Exception) or not (job.journal or call.resumed or call.attempt.records.epoch):
        return False
    if job.resume_on is not None:
        return bool(job.resume_on(error))
    return is_resumable(error, call.attempt.from_calls, call.attempt.from_user)


async def _noted(job: Job, error: BaseException) -> None:
    if isinstance(error, CallInDoubt):
        await _set_status(job, "in_doubt")


async def _set_status(job: Job, status: str) -> None:
    await perform(job, job.relay.store.setting_status(job.run_id, status))
