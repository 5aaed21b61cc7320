"""One script in the queue: it begins or is cancelled, and ends once.

No lock of Python's own is held here, so that an interrupt of the main thread cannot keep the writer from
ending a job.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from agent_handoff_kit.store.steps import Script

_BEGUN = "begun"
_CANCELLED = "cancelled"


class Job:
    """A script, made anew for each time it runs, and how it ended; a blocking caller waits for it."""

    __slots__ = ("_ended", "_error", "_fate", "_value", "done", "script")

    def __init__(self, script: Callable[[], Script[Any]]) -> None:
        self.script: Callable[[], Script[Any]] = script
        self.done: bool = False
        self._value: Any = None
        self._error: BaseException | None = None
        # Its one item is what comes first: setdefault is one step that no thread and no signal divides.
        self._fate: dict[str, str] = {}
        self._ended = threading.Lock()
        self._ended.acquire()

    @property
    def cancelled(self) -> bool:
        """Whether it will never begin."""
        return self._fate.get("is") == _CANCELLED

    def begin(self) -> bool:
        """Begin, or go on with what was interrupted; False if it was cancelled or has ended."""
        return not self.done and self._fate.setdefault("is", _BEGUN) is _BEGUN

    def cancel(self) -> bool:
        """Let the job never begin; False if it has."""
        return self._fate.setdefault("is", _CANCELLED) is _CANCELLED

    def put_back(self) -> None:
        """Let a job be cancelled again whose transaction was taken back."""
        if not self.done and self._fate.get("is") is _BEGUN:
            self._fate.clear()

    def succeed(self, value: Any) -> None:
        """End with a result; the first end stays."""
        if not self.done:
            self._value = value
            self._end()

    def fail(self, error: BaseException) -> None:
        """End with an error; the first end stays."""
        if not self.done:
            self._error = error
            self._end()

    def wait(self, seconds: float) -> bool:
        """Wait for the end; whether it came. For the one caller whose job it is."""
        return self.done or self._ended.acquire(timeout=seconds)

    def outcome(self) -> Any:
        """The result of a job that has ended, or its error raised."""
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            # The traceback refers to this frame; the frame must not refer to the error.
            del self

    def _end(self) -> None:
        self.done = True
        with contextlib.suppress(RuntimeError):
            self._ended.release()


class FutureJob(Job):
    """A job whose end is a future's."""

    __slots__ = ("future",)

    def __init__(self, script: Callable[[], Script[Any]]) -> None:
        super().__init__(script)
        self.future: Future[Any] = Future()

    def begin(self) -> bool:
        if not super().begin():
            return False
        # Put back and begun again, it runs already.
        return self.future.running() or self.future.set_running_or_notify_cancel()

    @property
    def cancelled(self) -> bool:
        return super().cancelled or self.future.cancelled()

    def _end(self) -> None:
        self.done = True
        with contextlib.suppress(InvalidStateError):
            if self._error is None:
                self.future.set_result(self._value)
            else:
                self.future.set_exception(self._error)
