"""Which failures of a run may be met by another attempt."""

from __future__ import annotations

from collections.abc import Collection

from agent_handoff_kit.errors import HandoffKitError
from agent_handoff_kit.openai_adapter import _sdk

_TRANSPORTS = ("httpx", "httpx2", "httpcore", "httpcore2", "websockets", "aiohttp")
_PASSING = (408, 409, 429)


def is_resumable(
    error: BaseException, from_calls: Collection[BaseException], from_user: Collection[BaseException]
) -> bool:
    """Whether a run that failed so may be resumed in the same process.

    Args:
        error: what came out of the run.
        from_calls: what models and tools raised during it.
        from_user: what the user's hooks, filters and callbacks raised; such an error says nothing of the run.
    """
    if not isinstance(error, Exception) or isinstance(error, HandoffKitError) or _is_one_of(error, from_user):
        return False
    if isinstance(error, _sdk.UserError):
        cause = error.__cause__
        return cause is not None and is_resumable(cause, (*from_calls, cause), from_user)
    if isinstance(error, _sdk.ModelBehaviorError):
        return is_provider_failure(error)
    if isinstance(error, _sdk.AgentsException):
        return isinstance(error, _sdk.TIMEOUTS)
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return (status in _PASSING or status >= 500) and getattr(error, "code", None) != "insufficient_quota"
    return is_transport(error) or _is_one_of(error, from_calls)


def is_provider_failure(error: _sdk.ModelBehaviorError) -> bool:
    """Whether a model's misbehaviour is the provider's failure to answer, told by the SDK in words only."""
    text = str(error)
    ended = text.startswith("Responses stream ended with terminal event") or "status=" in text
    return ended and any(word in text for word in ("failed", "incomplete", "error", "cancelled"))


def is_transport(error: Exception) -> bool:
    """Whether an error is of the way to a server; those of HTTP libraries are known by their home."""
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    kinds = type(error).__mro__
    if any(kind.__module__.split(".")[0] in _TRANSPORTS and "Error" in kind.__name__ for kind in kinds):
        return not any(kind.__name__ == "HTTPStatusError" for kind in kinds)
    return any(kind.__module__.startswith("openai") and kind.__name__ == "APIConnectionError" for kind in kinds)


def _is_one_of(error: BaseException, known: Collection[BaseException]) -> bool:
    return any(error is one for one in known)
