"""The order of things in a run: lease, input, attempt after attempt, completion."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from agent_handoff_kit.errors import CallInDoubt
from agent_handoff_kit.journal import Journal
from agent_handoff_kit.openai_adapter.approvals import apply_decisions, keep_decisions, kept_decisions
from agent_handoff_kit.openai_adapter.attempt import KitFailure, active
from agent_handoff_kit.openai_adapter.checkpoints import ResumePoint
from agent_handoff_kit.openai_adapter.failures import is_resumable
from agent_handoff_kit.openai_adapter.job import Call, Job, kept_start, next_call, perform, scope_of
from agent_handoff_kit.openai_adapter.outcome import finish
from agent_handoff_kit.openai_adapter.traces import resume_span
from agent_handoff_kit.openai_adapter.turns import name_limit
from agent_handoff_kit.runs import Run

_logger = logging.getLogger(__name__)

Execute = Callable[[Call, Any, Any, dict[str, Any]], Awaitable[Any]]
Told = Callable[[Call], Awaitable[None]]


class Attempts:
    """The attempts at one run that one call makes.

    Args:
        job: what the caller gave.
    """

    def __init__(self, job: Job) -> None:
        self.job = job

    async def run(self, execute: Execute, on_resume: Told | None = None) -> Any:
        """Attempt the run until it ends, waits or may not be resumed.

        Args:
            execute: runs the SDK's runner with a call, an agent, its items and further arguments.
            on_resume: told of each further attempt before it begins.
        """
        job = self.job
        try:
            async with job.relay.arun(job.run_id) as run:
                start = await kept_start(job, run)
                await keep_decisions(Journal(run), job.decisions)
                return await self._attempted(run, start, execute, on_resume)
        finally:
            if job.owns_provider:
                await job.config.model_provider.aclose()

    async def _attempted(self, run: Run, start: ResumePoint, execute: Execute, on_resume: Told | None) -> Any:
        left = self.job.max_resume_attempts
        while True:
            call = await next_call(self.job, run, start)
            if left < self.job.max_resume_attempts and on_resume is not None:
                await on_resume(call)
            try:
                return await self._once(call, execute)
            except BaseException as error:
                settled = await call.attempt.settle(run.ttl)
                raised = self._original(call, error)
                if not settled or left < 1 or not self._may_resume(call, raised):
                    await self._noted(raised)
                    if raised is error:
                        raise
                    raise raised from raised.__cause__
                left -= 1
                _logger.warning("run %s failed and is resumed: %r", run.run_id, raised)
            finally:
                call.attempt.closed = True

    async def _once(self, call: Call, execute: Execute) -> Any:
        token = active.set(scope_of(call.attempt))
        try:
            with resume_span(self.job, call):
                result = await execute(call, call.agent, call.items, call.arguments)
                while result.interruptions and (state := await self._decided(call, result)) is not None:
                    result = await execute(call, call.agent, state, call.continued)
        finally:
            active.reset(token)
        call.attempt.check()
        await call.attempt.settle(call.attempt.run.ttl)
        if result.interruptions:
            await self._set_status("waiting")
            return result
        return await finish(self.job, call, result)

    async def _decided(self, call: Call, result: Any) -> Any:
        """The state of a waiting run with the stored decisions; None if there is none on what it waits for."""
        call.attempt.check()
        state = result.to_state()
        if not apply_decisions(state, await kept_decisions(call.attempt.journal)):
            return None
        await self._set_status("open")
        return state

    def _may_resume(self, call: Call, error: BaseException) -> bool:
        if not isinstance(error, Exception) or not (self.job.journal or call.attempt.records.epoch):
            return False
        if self.job.resume_on is not None:
            return bool(self.job.resume_on(error))
        return is_resumable(error, call.attempt.from_calls, call.attempt.from_user)

    async def _noted(self, error: BaseException) -> None:
        if isinstance(error, CallInDoubt):
            await self._set_status("in_doubt")

    async def _set_status(self, status: str) -> None:
        await perform(self.job, self.job.relay.store.setting_status(self.job.run_id, status))

    def _original(self, call: Call, error: BaseException) -> BaseException:
        """The error that ended the attempt: the kit's own before what it was turned into."""
        if call.attempt.failure is not None:
            return call.attempt.failure
        if all(error is not one for one in call.attempt.from_calls):
            # A run inside a tool has a limit of its own.
            name_limit(error, self.job.max_turns)
        return error.error if isinstance(error, KitFailure) else error
