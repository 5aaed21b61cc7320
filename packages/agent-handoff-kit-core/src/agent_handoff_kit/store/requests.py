"""One text for the blocking and the awaitable face.

A plan is a generator that yields requests to a backend and receives their results. User code runs in
plans, on the caller's thread; scripts run on the store's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, NamedTuple, TypeVar

from agent_handoff_kit.store.contract import Backend
from agent_handoff_kit.store.steps import Script

T = TypeVar("T")


class Write(NamedTuple):
    """Run this script as a durable transaction."""

    script: Callable[[], Script[Any]]


class Read(NamedTuple):
    """Run this script, which only reads."""

    script: Callable[[], Script[Any]]


class Pause(NamedTuple):
    """Wait for a future of this process to end, or for seconds to pass; True if the future ended."""

    seconds: float
    until: Future[None] | None = None


class Invoke(NamedTuple):
    """Call user code; on the awaitable face an awaitable that it returns is awaited."""

    function: Callable[[], Any]


Request = Write | Read | Pause | Invoke
Plan = Generator[Request, Any, T]


def perform(backend: Backend, plan: Plan[T]) -> T:
    """Run a plan to its end, blocking."""
    try:
        request = next(plan)
        while True:
            try:
                value = _do(backend, request)
            except BaseException as error:
                request = plan.throw(error)
            else:
                request = plan.send(value)
    except StopIteration as done:
        result: T = done.value
        return result


def _do(backend: Backend, request: Request) -> Any:
    match request:
        case Write(script):
            return backend.write(script)
        case Read(script):
            return backend.read(script)
        case Invoke(function):
            return function()
        case Pause(seconds, until):
            return _paused(seconds, until)


def _paused(seconds: float, until: Future[None] | None) -> bool:
    if until is None:
        time.sleep(seconds)
        return False
    try:
        until.result(seconds)
    except FutureTimeoutError:
        return False
    return True
