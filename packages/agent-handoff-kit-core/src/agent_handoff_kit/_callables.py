"""What kind of callable a user's one is, and whether what it returned is a result yet."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

OWN_PARAMETERS = ("self", "cls")


def innermost(function: Any) -> Any:
    """What a partial, however deep, calls in the end."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable: coroutine functions, their partials, objects with an async call."""
    return any(inspect.iscoroutinefunction(one) or _is_marked(one) for one in _layers(function))


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a generator, async or not, and runs nothing of its body."""
    return any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in _layers(function))


def first_parameter(function: Callable[..., Any]) -> int:
    """The position of the first argument that is the caller's own: 1 for a method that is not bound yet."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return 0
    return int(bool(names) and names[0] in OWN_PARAMETERS)


def unfinished(result: object) -> str | None:
    """What stands in the place of a result that is still to be made; None for a result."""
    if inspect.iscoroutine(result):
        return "a coroutine"
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        return "a generator"
    return "an awaitable" if inspect.isawaitable(result) else None


def discard(result: object) -> bool:
    """Close a coroutine or generator that has not begun; whether it is certain that nothing of it ran or will."""
    if inspect.iscoroutine(result):
        fresh = inspect.getcoroutinestate(result) == inspect.CORO_CREATED
    elif inspect.isgenerator(result):
        fresh = inspect.getgeneratorstate(result) == inspect.GEN_CREATED
    else:
        return False
    if fresh:
        result.close()
    return fresh


def _layers(function: Any) -> Iterator[Any]:
    plain = innermost(function)
    yield plain
    if not inspect.isroutine(plain) and not isinstance(plain, type):
        yield from _layers(type(plain).__call__)


def _is_marked(function: object) -> bool:
    # How libraries mark a plain function that gives a coroutine, before Python 3.12 had a way of its own.
    asyncio: Any = sys.modules.get("asyncio.coroutines")
    mark = getattr(asyncio, "_is_coroutine", None)
    return mark is not None and getattr(function, "_is_coroutine", None) is mark
