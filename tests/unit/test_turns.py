"""Interrupts around any use of a turn's lock, several in a row, leave nothing taken."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Collection
from unittest import mock

import pytest

from agent_handoff_kit.store.turns import Turn

MOMENTS = 18


class InterruptedLock:
    """A reentrant lock; KeyboardInterrupt comes before or after its uses with these numbers.

    CPython delivers no signal between taking a lock in a ``with`` statement and the end of its body's first
    call, nor between the end of the body's last call and the release: none comes there.
    """

    def __init__(self, moments: Collection[int]) -> None:
        self._lock = threading.RLock()
        self._moments = moments
        self._passed = 0
        self._entered = False

    def acquire(self, timeout: float) -> bool:
        self._pass()
        taken = self._lock.acquire(timeout=timeout)
        self._pass()
        return taken

    def release(self) -> None:
        if not self._entered:
            self._pass()
        self._entered = False
        self._lock.release()
        self._pass()

    def __enter__(self) -> None:
        self._pass()
        self._lock.acquire()
        self._entered = True

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        self._pass()

    def _pass(self) -> None:
        # Signals interrupt the main thread only.
        if threading.current_thread() is not threading.main_thread():
            return
        self._passed += 1
        if self._passed in self._moments:
            raise KeyboardInterrupt


def interrupted_turn(moments: Collection[int]) -> Turn:
    lock = InterruptedLock(moments)
    with mock.patch("threading.RLock", lambda: lock):
        return Turn()


def call(turn: Turn) -> None:
    turn.run(1.0, lambda: None, lambda error: None)


def is_free_for_others(turn: Turn) -> bool:
    taken: list[bool] = []
    thread = threading.Thread(target=lambda: taken.append(turn.acquire(0.0)))
    thread.start()
    thread.join()
    return taken == [True]


@pytest.mark.parametrize("first", range(1, MOMENTS))
def test_any_three_interrupts_leave_the_turn_to_others_after_the_next_call(first: int) -> None:
    for others in itertools.combinations(range(first + 1, first + MOMENTS), 2):
        turn = interrupted_turn((first, *others))
        for _ in range(4):
            with contextlib.suppress(KeyboardInterrupt):
                call(turn)
        for _ in range(4):
            with contextlib.suppress(KeyboardInterrupt):
                turn.refuse_nesting()
        assert is_free_for_others(turn), (first, *others)
