"""One text for the blocking and the awaitable face.

A plan is a generator that yields requests to a backend and receives their results. User code runs in
plans, on the caller's thread; scripts run on the store's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
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


Plan = Generator[Write | Read, Any, T]


def perform(backend: Backend, plan: Plan[T]) -> T:
    """Run a plan to its end, blocking."""
    try:
        request = next(plan)
        while True:
            try:
                value = backend.write(request.script) if isinstance(request, Write) else backend.read(request.script)
            except Exception as error:
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
                value = await _wait(backend, request, timeout)
            except Exception as error:
                request = plan.throw(error)
            else:
                request = plan.send(value)
    except StopIteration as done:
        result: T = done.value
        return result


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
