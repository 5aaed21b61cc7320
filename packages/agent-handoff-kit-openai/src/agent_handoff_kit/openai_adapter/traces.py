"""A resume, as the SDK's traces show it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.job import Call, Job


@contextmanager
def resume_span(job: Job, call: Call) -> Generator[None, None, None]:
    """A ``recovery.resume`` span around an attempt that resumes; it tells what was replayed.

    All traces of a run have its id as their group, where the caller names no other.
    """
    config = job.config
    if not call.resumed or config.tracing_disabled:
        yield
        return
    told: dict[str, Any] = {"run_id": job.run_id, "agent": call.agent.name, "epoch": call.attempt.records.epoch}
    group = config.group_id or job.run_id
    outer = _sdk.trace(config.workflow_name, config.trace_id, group, config.trace_metadata)
    with nullcontext() if _sdk.get_current_trace() is not None else outer, _sdk.custom_span("recovery.resume", told):
        try:
            yield
        finally:
            told["replayed_model_calls"] = call.attempt.replayed_models
            told["replayed_tools"] = call.attempt.replayed_tools
