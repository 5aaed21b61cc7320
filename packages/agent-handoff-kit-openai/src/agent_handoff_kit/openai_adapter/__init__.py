"""The OpenAI Agents SDK adapter: runs of agents that go on after a crash anywhere."""

from agent_handoff_kit.errors import RunAlreadyCompleted, UnsupportedSDK
from agent_handoff_kit.openai_adapter._sdk import require_supported_sdk
from agent_handoff_kit.openai_adapter.context import (
    build_envelope_from_run_context,
    context_from_run_context,
    messages_from_run_context,
)
from agent_handoff_kit.openai_adapter.handoffs import relayed_handoff, wrap_handoff, wrap_on_handoff
from agent_handoff_kit.openai_adapter.resuming import resume_run, resume_with_agent
from agent_handoff_kit.openai_adapter.runner import DurableRunner
from agent_handoff_kit.openai_adapter.streaming import RunResumedEvent
from agent_handoff_kit.openai_adapter.tools import make_idempotent_function_tool

__all__ = [
    "DurableRunner",
    "RunAlreadyCompleted",
    "RunResumedEvent",
    "UnsupportedSDK",
    "build_envelope_from_run_context",
    "context_from_run_context",
    "make_idempotent_function_tool",
    "messages_from_run_context",
    "relayed_handoff",
    "resume_run",
    "resume_with_agent",
    "wrap_handoff",
    "wrap_on_handoff",
]

require_supported_sdk()
