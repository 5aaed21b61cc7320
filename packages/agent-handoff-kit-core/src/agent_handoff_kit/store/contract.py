"""What a backend promises. Each sentence has a conformance test."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from agent_handoff_kit.store.steps import Script

T = TypeVar("T")


class Backend(Protocol):
    """Runs scripts on one database."""

    @property
    def location(self) -> str:
        """Names the database in errors, without a password."""
        ...

    def write(self, script: Callable[[], Script[T]]) -> T:
        """Runs a script as one transaction that is durable when this returns.

        Nothing of a script that raised is kept. An operation that could not begin within the timeout
        raises StoreBusy and is not written.
        """
        ...

    def submit(self, script: Callable[[], Script[T]]) -> Future[T]:
        """Queues a script without blocking; the future ends after the commit.

        A future that is cancelled before its script began leaves the queue; one that began is written.
        """
        ...

    def read(self, script: Callable[[], Script[T]]) -> T:
        """Runs a script that only reads."""
        ...

    def submit_read(self, script: Callable[[], Script[T]]) -> Future[T]:
        """Queues a reading script without blocking."""
        ...

    def close(self) -> None:
        """Ends what is queued and leaves no thread and no file handle; closing again does nothing."""
        ...
