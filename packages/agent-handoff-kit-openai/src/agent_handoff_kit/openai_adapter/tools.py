"""Function tools of the OpenAI Agents SDK whose effects happen at most once per key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_handoff_kit.core import Relay
from agent_handoff_kit.idempotency import idempotent_tool
from agent_handoff_kit.openai_adapter._sdk import function_tool
from agent_handoff_kit.store import CheckpointStore

_CALL_OPTIONS = ("name", "on_in_doubt", "not_applied", "wait", "ttl", "scope", "ignore", "returns")


def make_idempotent_function_tool(
    relay_or_store: Relay | CheckpointStore,
    run_id: str | Callable[..., str] | None,
    fn: Callable[..., Any],
    key_fn: Callable[..., str],
    **function_tool_kwargs: Any,
) -> Any:
    """``idempotent_tool`` around ``fn``, made a function tool.

    Args:
        relay_or_store: where calls are kept.
        run_id: as in ``idempotent_tool``.
        fn: the tool.
        key_fn: as in ``idempotent_tool``.
        function_tool_kwargs: the options of ``idempotent_tool``; all others go to the SDK's ``function_tool``.

    Returns:
        The SDK's ``FunctionTool``.
    """
    options = {name: function_tool_kwargs.pop(name) for name in _CALL_OPTIONS if name in function_tool_kwargs}
    return function_tool(idempotent_tool(relay_or_store, run_id, key_fn, **options)(fn), **function_tool_kwargs)
