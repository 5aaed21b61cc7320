"""Results of tools, kept by key, so that a resumed agent gets them back instead of calling again."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any

from agent_handoff_kit.core import Relay
from agent_handoff_kit.guard import is_async
from agent_handoff_kit.store import CheckpointStore
from agent_handoff_kit.store.requests import perform, perform_async

_logger = logging.getLogger(__name__)

KeyFn = Callable[..., str]


def idempotent_tool(
    relay_or_store: Relay | CheckpointStore, run_id: str, key_fn: KeyFn
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: keep a tool's result under ``key_fn(...)`` and return it on later calls with that key.

    A result is a result whatever its value: None, False and 0 are kept too. Two tools of one run may
    use the same key. A call that dies before its result is recorded runs again, and so may a second
    call that begins before the first one ends.

    Args:
        relay_or_store: where results are kept.
        run_id: the run that the results belong to.
        key_fn: called with the tool's arguments; returns the key, non-empty text.

    Raises:
        TypeError: at the call, if the key is no text or empty.
        PayloadError: at the call, if the key or the result cannot be stored.
    """
    store = relay_or_store if isinstance(relay_or_store, CheckpointStore) else relay_or_store.store

    def decorator(tool: Callable[..., Any]) -> Callable[..., Any]:
        name = getattr(tool, "__name__", "tool")
        return _wrapped(store, run_id, key_fn, name, tool)

    return decorator


def make_idempotent_function_tool(
    relay_or_store: Relay | CheckpointStore,
    run_id: str,
    fn: Callable[..., Any],
    key_fn: KeyFn,
    **function_tool_kwargs: Any,
) -> Any:
    """``idempotent_tool`` around ``fn``, made a function tool of the OpenAI Agents SDK.

    Args:
        relay_or_store: where results are kept.
        run_id: the run that the results belong to.
        fn: the tool.
        key_fn: as in ``idempotent_tool``.
        function_tool_kwargs: passed on to the SDK's ``function_tool``.

    Raises:
        ImportError: the OpenAI Agents SDK is not installed; names what to install.
    """
    try:
        agents: Any = importlib.import_module("agents")
    except ImportError as error:
        raise ImportError("install 'agent-handoff-kit[openai]' to make OpenAI Agents SDK tools") from error
    return agents.function_tool(idempotent_tool(relay_or_store, run_id, key_fn)(fn), **function_tool_kwargs)


def _wrapped(
    store: CheckpointStore, run_id: str, key_fn: KeyFn, name: str, tool: Callable[..., Any]
) -> Callable[..., Any]:
    if is_async(tool):
        return _wrapped_async(store, run_id, key_fn, name, tool)

    @functools.wraps(tool)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        key = _key(key_fn, args, kwargs)
        found, value = perform(store.backend, store.find_result(run_id, key, name))
        if found:
            return _replayed(name, key, run_id, value)
        result = tool(*args, **kwargs)
        perform(store.backend, store.record_result(run_id, key, name, result))
        return result

    return wrapper


def _wrapped_async(
    store: CheckpointStore, run_id: str, key_fn: KeyFn, name: str, tool: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(tool)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        key = _key(key_fn, args, kwargs)
        found, value = await perform_async(store.backend, store.find_result(run_id, key, name), store.timeout)
        if found:
            return _replayed(name, key, run_id, value)
        result = await tool(*args, **kwargs)
        await perform_async(store.backend, store.record_result(run_id, key, name, result), store.timeout)
        return result

    return wrapper


def _key(key_fn: KeyFn, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    key: Any = key_fn(*args, **kwargs)
    if not isinstance(key, str) or not key:
        raise TypeError(f"key_fn returned {key!r}; return non-empty text")
    return key


def _replayed(name: str, key: str, run_id: str, value: Any) -> Any:
    _logger.info("%s(%s) of run %s returns its recorded result", name, key, run_id)
    return value
