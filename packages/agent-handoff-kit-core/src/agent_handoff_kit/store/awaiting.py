"""The awaitable face of plans. Apart from the blocking one, which has no need of asyncio and its import."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from agent_handoff_kit.errors import StoreBusy
from agent_handoff_kit.store.contract import Backend
from agent_handoff_kit.store.requests import Invoke, Pause, Plan, Read, Request, Write

T = TypeVar("T")


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


async def finish(backend: Backend, plan: Plan[T], timeout: float) -> T:
    """Run a plan to its end even if the caller is cancelled meanwhile."""
    return await asyncio.shield(perform_async(backend, plan, timeout))


async def sleep(seconds: float) -> None:
    """Let the event loop go on for some seconds."""
    await asyncio.sleep(seconds)


async def off_the_loop(work: Callable[[], T]) -> T:
    """Do blocking work in a thread."""
    return await asyncio.to_thread(work)


async def _do_async(backend: Backend, request: Request, timeout: float) -> Any:
    match request:
        case Invoke(function):
            value = function()
            return await value if inspect.isawaitable(value) else value
        case Pause(seconds, until):
            return await _paused_async(seconds, until)
        case _:
            return await _wait(backend, request, timeout)


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
