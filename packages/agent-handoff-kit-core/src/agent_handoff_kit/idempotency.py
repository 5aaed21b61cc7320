"""Tools whose effects happen at most once per key."""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable, Collection
from typing import Any

from agent_handoff_kit._callables import innermost, is_async, is_generator
from agent_handoff_kit._shapes import rebuilder
from agent_handoff_kit.arguments import signature_of
from agent_handoff_kit.at_most_once import Tool, call_tool
from agent_handoff_kit.calls import Applied, Call, NotApplied, Unknown, current_call
from agent_handoff_kit.core import Relay
from agent_handoff_kit.store import CheckpointStore
from agent_handoff_kit.store.requests import perform

__all__ = [
    "Applied",
    "Call",
    "NotApplied",
    "Unknown",
    "current_call",
    "idempotent_tool",
    "make_idempotent_function_tool",
]

KeyFn = Callable[..., str]

_declared: weakref.WeakKeyDictionary[CheckpointStore, dict[str, tuple[str, str]]] = weakref.WeakKeyDictionary()


def idempotent_tool(
    relay_or_store: Relay | CheckpointStore,
    run_id: str | Callable[..., str] | None,
    key_fn: KeyFn,
    *,
    name: str | None = None,
    on_in_doubt: str | Callable[[Call], Any] = "raise",
    not_applied: Collection[type[BaseException]] = (),
    wait: float | None = None,
    ttl: float | None = None,
    scope: str = "run",
    ignore: Collection[str] = (),
    returns: Any = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the effect of a tool happens at most once per key; later calls get the recorded result.

    The call is recorded as started before the tool runs, durably. If its owner dies before the outcome is recorded,
    the call is in doubt: it may have happened. Concurrent calls with one key wait for the one that runs.

    Args:
        relay_or_store: where calls are kept.
        run_id: the run that the key belongs to, a callable of the arguments that names it, or None: the run being
            run (``relay.run``).
        key_fn: called with the arguments; returns the key, 1 to 255 characters. Tools have keys of their own.
        name: the tool's name; its own name by default.
        on_in_doubt: ``"raise"`` (``CallInDoubt``); ``"retry"``, for effects that are idempotent downstream; or a
            callable of the ``Call`` that returns ``Applied(result)``, ``NotApplied`` or ``Unknown``.
        not_applied: exception types that say that nothing happened, as ``NotApplied`` does; they free the key. Any
            other exception, a timeout and a cancellation leave the call in doubt.
        wait: seconds to wait for another caller; by default a little longer than a dead one can hold the key.
        ttl: seconds after which the result of a call with scope ``"global"``, or of a completed run, is forgotten.
        scope: ``"run"``, or ``"global"`` for keys that are shared by all runs.
        ignore: names of arguments that do not tell calls apart.
        returns: the type of the result; by default the return annotation where it is a dataclass, TypedDict or
            pydantic model. Other results come back as they were stored.

    Raises:
        TypeError: at decoration, for a generator, a tool without a name, or a ``returns`` that cannot be rebuilt;
            at the call, if the key is no text.
        ValueError: at decoration, for an unknown option or a name that another tool of the store has; at the call,
            for ``run_id=None`` outside a run.
        KeyConflict: at the call, if the key was used with other arguments. Nothing is run.
        CallInDoubt: at the call, if its outcome is not known, or its result was not kept.
        CallInProgress: at the call, if another caller did not end in time, or the call would wait for itself.
        RunMismatch: at the call, inside another run than ``run_id``.
        RunInProgress: at the call, if another owner works on the run.
    """
    store = relay_or_store if isinstance(relay_or_store, CheckpointStore) else relay_or_store.store
    lease_ttl = 30.0 if isinstance(relay_or_store, CheckpointStore) else relay_or_store.lease_ttl
    if scope not in ("run", "global"):
        raise ValueError(f"scope is {scope!r}; give 'run' or 'global'")
    if not callable(on_in_doubt) and on_in_doubt not in ("raise", "retry"):
        raise ValueError(f"on_in_doubt is {on_in_doubt!r}; give 'raise', 'retry' or a callable")

    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        tool = Tool(
            store=store,
            function=function,
            signature=signature_of(function),
            name=_name_of(store, function, name),
            run_id=run_id,
            key_fn=key_fn,
            on_in_doubt=on_in_doubt,
            not_applied=(NotApplied, *not_applied),
            wait=lease_ttl + 5 if wait is None else wait,
            ttl=ttl,
            is_global=scope == "global",
            ignore=frozenset(ignore),
            rebuild=rebuilder(function, returns),
            redact=None if isinstance(relay_or_store, CheckpointStore) else relay_or_store.redact,
            lease_ttl=lease_ttl,
            awaited=is_async(function),
        )
        return _wrapped(tool)

    return decorator


def make_idempotent_function_tool(
    relay_or_store: Relay | CheckpointStore,
    run_id: str | Callable[..., str] | None,
    fn: Callable[..., Any],
    key_fn: KeyFn,
    **function_tool_kwargs: Any,
) -> Any:
    """``idempotent_tool`` around ``fn``, made a function tool of the OpenAI Agents SDK.

    Args:
        relay_or_store: where calls are kept.
        run_id: as in ``idempotent_tool``.
        fn: the tool.
        key_fn: as in ``idempotent_tool``.
        function_tool_kwargs: passed on to the SDK's ``function_tool``.

    Raises:
        ImportError: the adapter is not installed; names what to install.
    """
    try:
        tools: Any = importlib.import_module("agent_handoff_kit.openai_adapter.tools")
    except ImportError as error:
        raise ImportError("install 'agent-handoff-kit[openai]' to make OpenAI Agents SDK tools") from error
    return tools.make_idempotent_function_tool(relay_or_store, run_id, fn, key_fn, **function_tool_kwargs)


def _wrapped(tool: Tool) -> Callable[..., Any]:
    backend, timeout = tool.store.backend, tool.store.timeout
    if tool.awaited:

        @functools.wraps(tool.function)
        async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
            from agent_handoff_kit.store import awaiting  # brings asyncio

            return await awaiting.perform_async(backend, call_tool(tool, args, kwargs), timeout)

        return async_wrapper

    @functools.wraps(tool.function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return perform(backend, call_tool(tool, args, kwargs))

    return wrapper


def _name_of(store: CheckpointStore, function: Callable[..., Any], given: str | None) -> str:
    name = given or getattr(function, "__name__", None)
    if name is None:
        raise TypeError(f"{function!r} has no name of its own; give name=")
    plain = innermost(function)
    if is_generator(function):
        raise TypeError(f"{name} is a generator; an idempotent tool returns its result at once")
    home = (str(getattr(plain, "__module__", "")), str(getattr(plain, "__qualname__", type(plain).__qualname__)))
    names = _declared.setdefault(store, {})
    if names.setdefault(name, home) != home:
        raise ValueError(f"two tools of one store are named {name!r}: {names[name]} and {home}; give one of them name=")
    return name
