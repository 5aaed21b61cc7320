"""The OpenAI Agents SDK adapter: the SDK's version is checked at import."""

from agent_handoff_kit.errors import RunAlreadyCompleted, UnsupportedSDK
from agent_handoff_kit.openai_adapter._sdk import require_supported_sdk
from agent_handoff_kit.openai_adapter.tools import make_idempotent_function_tool

__all__ = ["RunAlreadyCompleted", "UnsupportedSDK", "make_idempotent_function_tool"]

require_supported_sdk()
