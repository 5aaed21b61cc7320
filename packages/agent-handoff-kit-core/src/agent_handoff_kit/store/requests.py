"""One text for the blocking and the awaitable face.

A plan is a generator that yields requests to a backend and receives their results. User code runs in
plans, on the caller's thread; scripts run on the store's.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, TypeVar

from agent_handoff_kit.errors import StoreBusy
from agent_handoff_kit.store.contract import Backend
from agent_handoff_kit.store.steps import Script

T = TypeVar("T")


@dataclass(frozen=True)
class Write:
    """Run this script as a durable transaction."""

    script: Callable[[], Script[Any]]


@dataclass(frozen=True)
class Read:
    """Run this script, which only reads."""

    script: Callable[[], Script[Any]]


@dataclass(frozen=True)
class Pause:
    """Wait for a future of this process to end, or for seconds to pass; True if the future ended."""

    seconds: float
    until: Future[None] | None = None


@dataclass(frozen=True)
class Invoke:
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


async def perform_async(backend: Backend, plan: Plan[T], timeout: float) -> T:
    """Run a plan to its end without blocking the event loop."""
    try:
        request = next(plan)
        while True:
            try:
                value = await _do_async(backend, request, timeout)
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


async def _do_async(backend: Backend, request: Request, timeout: float) -> Any:
    match request:
        case Invoke(function):
            value = function()
            return await value if inspect.isawaitable(value) else value
        case Pause(seconds, until):
            return await _paused_async(seconds, until)
        case _:
            return await _wait(backend, request, timeout)


def _paused(seconds: float, until: Future[None] | None) -> bool:
    if until is None:
        time.sleep(seconds)
        return False
    try:
        until.result(seconds)
    except FutureTimeoutError:
        return False
    return True


async def _paused_async(seconds: float, until: Future[None] | None) -> bool:
    if until is None:
        await asyncio.sleep(seconds)
        return False
    # Not asyncio.wrap_future: cancelling one waiter would cancel the future of all.
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake(_: Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of a waiter that gave up is closed
            loop.call_soon_threadsafe(ended.set)

    until.add_done_callback(wake)
    try:
        await asyncio.wait_for(ended.wait(), seconds)
    except asyncio.TimeoutError:
        return False
    return True


async def _wait(backend: Backend, request: Write | Read, timeout: float) -> Any:
    future = _submit(backend, request)
    waiting = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait({waiting}, timeout=timeout)
    except asyncio.CancelledError:
        # A script that has begun cannot be called back: it is written.
        future.cancel()
        raise
    if not done and future.cancel():
        raise StoreBusy(backend.location, "write", f"it stayed locked for {timeout} s")
    return await waiting


def _submit(backend: Backend, request: Write | Read) -> Future[Any]:
    return backend.submit(request.script) if isinstance(request, Write) else backend.submit_read(request.script)
