"""guarded_handoff: a verified handoff in front of any callable."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

from agent_handoff_kit._callables import first_parameter, is_async, is_generator, unfinished
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
    if not callable(receiver):
        raise TypeError(f"{receiver!r} is not callable; put guarded_handoff under @classmethod, next to the function")
    if guard.completes and is_generator(receiver):
        raise TypeError(f"{_name_of(receiver)} is a generator, which has no result to complete the run with")
    place = first_parameter(receiver)
    if is_async(receiver):
        return _guarded_async(relay, guard, receiver, place)

    @functools.wraps(receiver)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        context = _context_of(receiver, place, args, kwargs)
        checkpoint = relay.handoff(**guard.arguments(context))
        with _logging(checkpoint):
            result = receiver(*args, **kwargs)
        if inspect.isawaitable(result):
            return _finished_later(relay, guard, checkpoint, result)
        if guard.completes:
            relay.complete(checkpoint.run_id, _whole(receiver, result))
        return result

    return wrapper


def _guarded_async(relay: Any, guard: Guard, receiver: Callable[..., Any], place: int) -> Callable[..., Any]:
    @functools.wraps(receiver)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        context = _context_of(receiver, place, args, kwargs)
        checkpoint = await relay.ahandoff(**guard.arguments(context))
        with _logging(checkpoint):
            body = receiver(*args, **kwargs)
        return await _finished_later(relay, guard, checkpoint, body)

    return wrapper


async def _finished_later(relay: Any, guard: Guard, checkpoint: Checkpoint, body: Awaitable[Any]) -> Any:
    with _logging(checkpoint):
        result = await body
    if guard.completes:
        await relay.acomplete(checkpoint.run_id, _whole(body, result))
    return result


def _context_of(receiver: Callable[..., Any], place: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) <= place and "context" not in kwargs:
        raise TypeError(f"{_name_of(receiver)} needs the context as its first argument or as context=")
    context = args[place] if len(args) > place else kwargs["context"]
    context_to_mapping(context)
    return context


def _whole(receiver: object, result: Any) -> Any:
    what = unfinished(result)
    if what is not None:
        raise TypeError(f"{_name_of(receiver)} returned {what}, which is no result to complete the run with")
    return result


def _name_of(receiver: object) -> str:
    return str(getattr(receiver, "__name__", repr(receiver)))


@contextmanager
def _logging(checkpoint: Checkpoint) -> Generator[None, None, None]:
    try:
        yield
    except Exception:
        _log_failure(checkpoint)
        raise


def _log_failure(checkpoint: Checkpoint) -> None:
    _logger.exception(
        "%r failed after its verified handoff %s of run %r; the checkpoint stays VERIFIED, recover(%r) gives it back",
        checkpoint.to_agent,
        checkpoint.checkpoint_id,
        checkpoint.run_id,
        checkpoint.run_id,
    )
