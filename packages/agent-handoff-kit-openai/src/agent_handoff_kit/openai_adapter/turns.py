"""The turns of a whole run: what an attempt has left of them, and errors that name the caller's limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.instrument import blamed

_LIMIT = "max_turns"


def turns_left(limit: int | None, used: int) -> int | None:
    """How many turns an attempt may take, of a limit of which earlier attempts used some; None for no limit."""
    return None if limit is None else max(0, limit - used)


def name_limit(error: BaseException, limit: int | None) -> None:
    """Let the error of a run that took too many turns name the limit of the whole run."""
    if isinstance(error, _sdk.MaxTurnsExceeded) and limit is not None:
        error.message = f"Max turns ({limit}) exceeded"
        error.args = (error.message,)


def error_handlers(given: Mapping[str, Callable[..., Any]], limit: int | None) -> dict[str, Any]:
    """The caller's error handlers; that of too many turns is told the limit of the whole run."""
    handlers: dict[str, Any] = {kind: blamed(handler) for kind, handler in given.items()}
    if _LIMIT in handlers:
        handlers[_LIMIT] = _naming(handlers[_LIMIT], limit)
    return handlers


def _naming(handler: Callable[[Any], Any], limit: int | None) -> Callable[[Any], Any]:
    def called(data: Any) -> Any:
        name_limit(data.error, limit)
        return handler(data)

    return called
