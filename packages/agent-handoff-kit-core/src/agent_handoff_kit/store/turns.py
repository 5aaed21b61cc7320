"""Whose turn it is: a lock that neither an interrupt nor a nested call of one thread can leave stuck.

A signal handler runs between two bytecodes of the main thread. It may raise there, or call the kit again.
CPython runs none between taking a built-in lock in a ``with`` statement and entering its body, nor between
the body's end and the release; everywhere else one must be expected.
"""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TurnTaken(Exception):
    """Somebody else kept the turn for all the time that there was."""


class TurnNested(TurnTaken):
    """The calling thread has the turn: a signal handler, callback or finalizer called from inside it."""


class Turn:
    """One at a time, whatever happens to the one whose turn it is."""

    def __init__(self) -> None:
        # Only a reentrant lock knows its thread, so that a thread can give back what it may or may not have.
        self._lock = threading.RLock()
        self._holder: int | None = None
        self._inside: set[int] = set()

    def run(self, seconds: float, work: Callable[[], T], tidy: Callable[[BaseException], None]) -> T:
        """Do the work within the turn.

        Args:
            seconds: how long to wait for it.
            work: what to do.
            tidy: puts right what the work left open when it ended with this error; called within the turn.

        Raises:
            TurnTaken: it was not to be had within these seconds; nothing was done.
            TurnNested: this thread has it already; nothing was done.
        """
        self.refuse_nesting()
        thread, locked = threading.get_ident(), False
        self._inside.add(thread)
        try:
            if not self._lock.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX)):
                raise TurnTaken
            with self._lock:
                locked = True
                self._lock.release()
                result = self._work(work, tidy)
        except BaseException:
            if not locked:
                self._give_back()
            self._inside.discard(thread)
            raise
        self._inside.discard(thread)
        return result

    def refuse_nesting(self) -> None:
        """Raise TurnNested if the caller was called from inside this turn."""
        thread = threading.get_ident()
        if thread not in self._inside:
            return
        if not self._is_nested():
            self._free()
        elif self._holder == thread:
            raise TurnNested

    def acquire(self, seconds: float) -> bool:
        """Take the turn beyond one call, until ``release``; False if somebody kept it, this thread included."""
        if self._holder == threading.get_ident():
            return False
        return self._lock.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))

    def release(self) -> None:
        """Give back what ``acquire`` took."""
        self._lock.release()

    def _work(self, work: Callable[[], T], tidy: Callable[[BaseException], None]) -> T:
        self._holder = threading.get_ident()
        try:
            return work()
        except BaseException as error:
            tidy(error)
            raise
        finally:
            self._holder = None

    def _give_back(self) -> None:
        # An interrupt may have come before the lock was taken, or after.
        with contextlib.suppress(RuntimeError):
            self._lock.release()

    def _is_nested(self) -> bool:
        # A call that only asks whether it may begin has no ``locked`` yet.
        runs = (frame.f_locals for frame, _ in traceback.walk_stack(None) if frame.f_code is Turn.run.__code__)
        return any(names["self"] is self and "locked" in names for names in runs)

    def _free(self) -> None:
        """Free what a second interrupt, in the middle of giving back after the first, left taken."""
        with contextlib.suppress(RuntimeError):
            while True:
                self._lock.release()
        # Last: an interrupt before it leaves the rest to the next call.
        self._inside.discard(threading.get_ident())
