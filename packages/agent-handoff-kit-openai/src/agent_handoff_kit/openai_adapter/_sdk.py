"""The only module that imports the OpenAI Agents SDK, and the only one that touches what the SDK keeps private."""

from __future__ import annotations

import dataclasses
import inspect
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeGuard

import agents
from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    Handoff,
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
    ItemHelpers,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelProvider,
    ModelResponse,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunResult,
    RunResultStreaming,
    ToolExecutionConfig,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputFileContent,
    ToolOutputGuardrailTripwireTriggered,
    ToolOutputImage,
    ToolOutputText,
    Usage,
    UserError,
    custom_span,
    function_tool,
    get_current_trace,
    handoff,
    trace,
)
from agents import exceptions as _exceptions
from agents.agent_tool_state import get_agent_tool_state_scope, set_agent_tool_state_scope
from agents.exceptions import AgentsException, MCPToolCancellationError, ToolTimeoutError
from agents.items import ToolApprovalItem
from agents.lifecycle import RunHooksBase
from agents.models.interface import Model
from agents.run import RunState
from agents.run_config import CallModelData, ModelInputData
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputItem, ResponseUsage
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from agent_handoff_kit.errors import UnsupportedSDK
from agent_handoff_kit.openai_adapter.plain import as_dict, as_list

__all__ = [
    "TIMEOUTS",
    "Agent",
    "AgentsException",
    "CallModelData",
    "FunctionTool",
    "GuardrailFunctionOutput",
    "Handoff",
    "InputGuardrail",
    "InputGuardrailResult",
    "InputGuardrailTripwireTriggered",
    "MaxTurnsExceeded",
    "Model",
    "ModelBehaviorError",
    "ModelInputData",
    "ModelProvider",
    "ModelResponse",
    "OutputGuardrailTripwireTriggered",
    "OutputItem",
    "RunConfig",
    "RunContextWrapper",
    "RunHooksBase",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "ToolApprovalItem",
    "ToolInputGuardrailTripwireTriggered",
    "ToolOutputGuardrailTripwireTriggered",
    "Usage",
    "UserError",
    "agent_in_tool",
    "as_state",
    "call_id_of",
    "completed_event",
    "constructed_item",
    "custom_span",
    "decision_on",
    "function_tool",
    "get_current_trace",
    "handoff",
    "isolate_agent_tools",
    "require_supported_sdk",
    "run_config",
    "runs_in_thread",
    "serial_tools",
    "target_of",
    "tool_from_visible_output",
    "trace",
    "usage_of_response",
    "visible_output",
    "wrap_invoker",
]

# Older versions have no timeout of their own for models.
TIMEOUTS: tuple[type[Exception], ...] = (
    ToolTimeoutError,
    MCPToolCancellationError,
    getattr(_exceptions, "ModelTimeoutError", ToolTimeoutError),
)
SUPPORTED = ">=0.20"
_FLOOR = (0, 20)
_MARK = "__agent_handoff_kit__"
_INNER = "_invoke_tool_impl"

OutputItem: Any = ResponseOutputItem
Invoke = Callable[[Any, str], Awaitable[Any]]


def require_supported_sdk() -> str:
    """The version of the installed SDK.

    Raises:
        UnsupportedSDK: it is older than 0.20, or lacks something that the adapter relies on.
    """
    found = str(agents.version.__version__)
    if not is_supported(found) or not all(_probes()):
        raise UnsupportedSDK(found, SUPPORTED)
    return found


def is_supported(version: str) -> bool:
    """Whether a version text names 0.20 or a later one."""
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= _FLOOR


def run_config(given: Any) -> RunConfig:
    """The run configuration that a caller gave: none, one, or a dict of its fields."""
    fields = as_dict(given)
    if fields is not None:
        return RunConfig(**fields)
    kept: RunConfig = RunConfig() if given is None else given
    return kept


def as_state(value: Any) -> RunState[Any, Any] | None:
    """The value if it is the SDK's own state of a run."""
    return value if _is_state(value) else None


def _is_state(value: object) -> TypeGuard[RunState[Any, Any]]:
    return isinstance(value, RunState)


def isolate_agent_tools(wrapper: RunContextWrapper[Any]) -> None:
    """Keep what the SDK notes about waiting agent tools apart from that of other attempts at the same calls.

    It is kept for the whole process by the call, and an attempt makes the calls of the one before it again. Later
    versions of the SDK do this by themselves.
    """
    if get_agent_tool_state_scope(wrapper) is None:
        set_agent_tool_state_scope(wrapper, uuid.uuid4().hex)


def serial_tools(given: Any) -> ToolExecutionConfig:
    """The tool execution that was asked for, one tool at a time."""
    if given is None:
        return ToolExecutionConfig(max_function_tool_concurrency=1)
    changed: ToolExecutionConfig = dataclasses.replace(given, max_function_tool_concurrency=1)
    return changed


def wrap_invoker(tool: FunctionTool, around: Callable[[Invoke], Invoke]) -> None:
    """Put ``around`` onto what a tool runs, inside the tool's own error policy; once.

    A tool made by the SDK keeps its ``on_invoke_tool``: another one would hide errors, and let calls pass that
    wait for approval. A tool made by hand has nothing inside it to wrap.
    """
    outer: Any = tool.on_invoke_tool
    inner = getattr(outer, _INNER, None)
    held: Any = outer if inner is None else inner
    if getattr(held, _MARK, False):
        return
    wrapped: Any = around(held)
    if inner is None:
        wrapped = _with_signature_of(wrapped, outer)
        tool.on_invoke_tool = wrapped
    else:
        wrapped.__dict__.update(vars(held))
        setattr(outer, _INNER, wrapped)
    setattr(wrapped, _MARK, True)


def runs_in_thread(tool: FunctionTool) -> bool:
    """Whether the tool's body runs in a thread, where a cancellation does not reach it."""
    return bool(getattr(tool.on_invoke_tool, "__agents_sync_function_tool__", False))


def agent_in_tool(tool: Any) -> Agent[Any] | None:
    """The agent that a tool made by ``Agent.as_tool`` runs."""
    if not getattr(tool, "_is_agent_tool", False):
        return None
    found: Agent[Any] | None = getattr(tool, "_agent_instance", None)
    return found


def target_of(entry: Agent[Any] | Handoff[Any, Any]) -> Agent[Any] | None:
    """The agent that an entry of ``Agent.handoffs`` leads to, where that is known beforehand."""
    if isinstance(entry, Agent):
        return entry
    reference: Any = getattr(entry, "_agent_ref", None)
    found: Agent[Any] | None = None if reference is None else reference()
    return found


def visible_output(context: Any, result: Any) -> Any:
    """What the model sees of a tool's result: text, or a list of content parts."""
    call = getattr(context, "tool_call", None)
    return str(result) if call is None else ItemHelpers.tool_call_output_item(call, result)["output"]


def tool_from_visible_output(visible: Any) -> Any:
    """A tool result that the model sees as this."""
    parts = as_list(visible)
    return visible if parts is None else [_part(one) for one in parts]


def call_id_of(item: ToolApprovalItem) -> str:
    """The id of a tool call that waits for approval."""
    raw = as_dict(item.raw_item) or vars(item.raw_item)
    return str(raw.get("call_id") or raw.get("id") or "")


def decision_on(state: Any, item: ToolApprovalItem) -> tuple[bool | None, bool, str | None]:
    """What a caller decided on a waiting call: approved or not, whether for ever, and the message of a rejection."""
    nested = state._find_nested_approval_state(item)
    if nested is not None:
        state, item = nested
    context, call_id, name = state._context, call_id_of(item), item.tool_name or ""
    told: dict[str, Any] = {"existing_pending": item, "tool_lookup_key": item.tool_lookup_key}
    status = context.get_approval_status(name, call_id, **told)
    listed = [one for record in context._approvals.values() for one in (record.approved, record.rejected)]
    single = any(isinstance(one, list) and call_id in one for one in listed)
    message = context.get_rejection_message(name, call_id, **told) if status is False else None
    return status, status is not None and not single, message


def usage_of_response(usage: Any) -> Usage | None:
    """The SDK's usage for what a provider reports in a streamed response."""
    if usage is None:
        return None
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details,
        output_tokens_details=usage.output_tokens_details,
    )


def completed_event(output: list[Any], response_id: str | None, usage: Usage | None) -> ResponseCompletedEvent:
    """The last event of a streamed response, which alone tells all of it."""
    response = Response.model_construct(
        id=response_id,
        created_at=0.0,
        model="replayed",
        object="response",
        output=output,
        tool_choice="auto",
        tools=[],
        parallel_tool_calls=True,
        status="completed",
        usage=_usage_in_response(usage),
    )
    return ResponseCompletedEvent.model_construct(type="response.completed", response=response, sequence_number=0)


def constructed_item(stored: Any) -> Any:
    """An output item of a kind or form that the SDK's types do not know in full."""
    from openai._models import construct_type

    return construct_type(type_=ResponseOutputItem, value=stored)


def _usage_in_response(usage: Usage | None) -> ResponseUsage | None:
    if usage is None or not usage.requests:
        return None
    into, out = usage.input_tokens_details, usage.output_tokens_details
    return ResponseUsage.model_construct(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=InputTokensDetails.model_construct(**into.model_dump()),
        output_tokens_details=OutputTokensDetails.model_construct(**out.model_dump()),
    )


def _part(content: dict[str, Any]) -> Any:
    fields = {key: value for key, value in content.items() if key != "type"}
    kinds: dict[str, Any] = {
        "input_text": ToolOutputText,
        "input_image": ToolOutputImage,
        "input_file": ToolOutputFileContent,
    }
    return kinds[content["type"]](**fields)


def _with_signature_of(wrapped: Any, outer: Any) -> Any:
    # The SDK reads the first parameter's annotation to decide which context the tool gets.
    wrapped.__wrapped__ = outer
    wrapped.__annotations__ = getattr(outer, "__annotations__", {})
    wrapped.__signature__ = inspect.signature(outer)
    return wrapped


def _probes() -> Iterator[bool]:
    def nothing() -> None:
        """Does nothing."""

    tool = function_tool(nothing)
    yield hasattr(tool.on_invoke_tool, _INNER)
    yield hasattr(tool, "_is_agent_tool")
    yield {"call_model_input_filter", "model_provider", "tool_execution"} <= set(RunConfig.__dataclass_fields__)
