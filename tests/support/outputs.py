"""Output items of scripted models, as a provider sends them."""

from __future__ import annotations

import json
from typing import Any

from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary


def message(text: str) -> ResponseOutputMessage:
    """An assistant's words."""
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id=f"msg_{text}", type="message", role="assistant", status="completed", content=[content]
    )


def call(tool: str, call_id: str, **arguments: Any) -> ResponseFunctionToolCall:
    """A call of a function tool."""
    return ResponseFunctionToolCall(
        id=f"fc_{call_id}",
        type="function_call",
        status="completed",
        name=tool,
        call_id=call_id,
        arguments=json.dumps(arguments),
    )


def handover(to_agent: str, call_id: str) -> ResponseFunctionToolCall:
    """A call of the SDK's tool for a handoff to the agent."""
    return call(f"transfer_to_{to_agent.lower()}", call_id)


def thought(text: str) -> ResponseReasoningItem:
    """A reasoning item; its encrypted content has to be given back as it came."""
    return ResponseReasoningItem(
        id=f"rs_{text}",
        type="reasoning",
        summary=[Summary(type="summary_text", text=text)],
        encrypted_content=f"secret of {text}",
    )
