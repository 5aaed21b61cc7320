"""guarded_handoff: a verified handoff in front of any callable."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from agent_handoff_kit._shapes import is_async
from agent_handoff_kit.handoffs import Terms
from agent_handoff_kit.models import Checkpoint, context_to_mapping
from agent_handoff_kit.runs import current_run

_logger = logging.getLogger("agent_handoff_kit.core")


class Guard(NamedTuple):
    """The handoff to make before the body runs."""

    run_id: str | Callable[[Any], str] | None
    from_agent: str
    to_agent: str
    terms: Terms
    completes: bool

    def _run_of(self, context: Any) -> str:
        if callable(self.run_id):
            return self.run_id(context)
        if self.run_id is not None:
            return self.run_id
        run = current_run()
        if run is None:
            raise ValueError("run_id is None outside a run; call inside `with relay.run(run_id)` or give run_id")
        return run.run_id

    def arguments(self, context: Any) -> dict[str, Any]:
        """The arguments of ``Relay.handoff`` for this context."""
        return {
            "run_id": self._run_of(context),
            "from_agent": self.from_agent,
            "to_agent": self.to_agent,
            "context": context,
            "required_keys": self.terms.required_keys,
            "schema": self.terms.schema,
            "checks": self.terms.checks,
        }


def guarded(relay: Any, guard: Guard, receiver: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a receiver, async or not; see ``Relay.guarded_handoff``."""
    if is_async(receiver):
        return _guarded_async(relay, guard, receiver)

    @functools.wraps(receiver)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        context = _context_of(receiver, args, kwargs)
        checkpoint = relay.handoff(**guard.arguments(context))
        try:
            result = receiver(*args, **kwargs)
        except Exception:
            _log_failure(checkpoint)
            raise
        if guard.completes:
            relay.complete(checkpoint.run_id, result)
        return result

    return wrapper


def _guarded_async(relay: Any, guard: Guard, receiver: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(receiver)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        context = _context_of(receiver, args, kwargs)
        checkpoint = await relay.ahandoff(**guard.arguments(context))
        try:
            result = await receiver(*args, **kwargs)
        except Exception:
            _log_failure(checkpoint)
            raise
        if guard.completes:
            await relay.acomplete(checkpoint.run_id, result)
        return result

    return wrapper


def _context_of(receiver: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not args and "context" not in kwargs:
        name = getattr(receiver, "__name__", repr(receiver))
        raise TypeError(f"{name} needs the context as its first argument or as context=")
    context = args[0] if args else kwargs["context"]
    context_to_mapping(context)
    return context


def _log_failure(checkpoint: Checkpoint) -> None:
    _logger.exception(
        "%r failed after its verified handoff %s of run %r; the checkpoint stays VERIFIED, recover(%r) gives it back",
        checkpoint.to_agent,
        checkpoint.checkpoint_id,
        checkpoint.run_id,
        checkpoint.run_id,
    )
