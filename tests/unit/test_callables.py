"""Every kind of callable is known for what it is."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from agent_handoff_kit._callables import is_async, is_generator


def plain(one: int = 0) -> int:
    return one


async def later(one: int = 0) -> int:
    return one


def generator(one: int = 0) -> Iterator[int]:
    yield one


async def later_generator(one: int = 0) -> AsyncIterator[int]:
    yield one


class Methods:
    def plain(self) -> int:
        return 0

    async def later(self) -> int:
        return 0

    @classmethod
    async def later_of_the_class(cls) -> int:
        return 0

    @staticmethod
    async def later_static() -> int:
        return 0

    bound = functools.partialmethod(later)


def called(function: Callable[..., Any]) -> Any:
    """An object whose call is this function."""
    return type("Called", (), {"__call__": function})()


class Awaiting:
    async def __call__(self) -> int:
        return 0


def marked() -> Any:
    """A plain function that says of itself that it gives a coroutine."""

    def passing_on() -> Any:
        return later()

    if sys.version_info >= (3, 12):
        import inspect

        return inspect.markcoroutinefunction(passing_on)
    passing_on._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return passing_on


@pytest.mark.parametrize(
    "function, expected",
    [
        (plain, False),
        (Methods, False),
        (len, False),
        (Methods().plain, False),
        (functools.partial(plain, 1), False),
        (called(plain), False),
        (later, True),
        (functools.partial(functools.partial(later, 1)), True),
        (Methods().later, True),
        (Methods.later_of_the_class, True),
        (Methods.later_static, True),
        (functools.partial(Methods().later), True),
        (Methods().bound, True),
        (Awaiting(), True),
        (functools.partial(Awaiting()), True),
        (called(Awaiting()), True),
        (called(functools.partial(later)), True),
        (marked(), True),
    ],
)
def test_a_callable_is_async_if_what_it_calls_in_the_end_is(function: Any, expected: bool) -> None:
    assert is_async(function) is expected


@pytest.mark.parametrize("function", [generator, later_generator])
def test_a_generator_is_seen_behind_partials_and_objects(function: Any) -> None:
    for one in (function, functools.partial(function, 1), called(function), called(functools.partial(function))):
        assert is_generator(one)
    assert not is_generator(plain) and not is_generator(later)
