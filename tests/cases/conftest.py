"""One relay on a file, called through its blocking or its awaitable face alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Relay


class Face:
    """Calls ``name`` of the relay, or awaits its twin."""

    def __init__(self, relay: Relay, awaitable: bool) -> None:
        self.relay = relay
        self.awaitable = awaitable

    def __getattr__(self, name: str) -> Callable[..., Any]:
        twin = getattr(self.relay, f"a{name}" if self.awaitable else name)
        return lambda *args, **kwargs: self.call(twin, *args, **kwargs)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def awaited() -> Any:
            return await function(*args, **kwargs)

        return asyncio.run(awaited()) if self.awaitable else function(*args, **kwargs)

    def receiver(self, body: Callable[[Any], Any]) -> Callable[..., Any]:
        """A function of this face that does what ``body`` does."""

        def blocking(context: Any) -> Any:
            return body(context)

        async def awaitable(context: Any) -> Any:
            return body(context)

        return awaitable if self.awaitable else blocking


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@pytest.fixture(params=["blocking", "awaitable"])
def face(request: pytest.FixtureRequest, path: str) -> Iterator[Face]:
    with Relay(path) as relay:
        yield Face(relay, request.param == "awaitable")
