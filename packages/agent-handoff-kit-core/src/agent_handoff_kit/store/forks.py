"""No SQLite connection and no lock descriptor crosses a fork.

A child that inherits a connection holds no POSIX locks on the file, and its commits can be lost when
the parent closes. So the current batch ends, everything is closed, and both sides open again at next use.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """What a backend shows to the fork handlers."""

    work_lock: threading.Lock
    read_lock: threading.Lock

    @property
    def lives_in_memory(self) -> bool: ...

    def release_files(self) -> None: ...

    def renew_locks(self) -> None: ...


_watched: weakref.WeakSet[Forkable] = weakref.WeakSet()
_held: list[Forkable] = []


def watch(backend: Forkable) -> None:
    """Close this backend's files before every fork of the process."""
    _watched.add(backend)


def _before() -> None:
    for backend in list(_watched):
        backend.work_lock.acquire()
        if backend.read_lock is not backend.work_lock:
            backend.read_lock.acquire()
        if not backend.lives_in_memory:
            backend.release_files()
        _held.append(backend)


def _after_in_parent() -> None:
    while _held:
        backend = _held.pop()
        if backend.read_lock is not backend.work_lock:
            backend.read_lock.release()
        backend.work_lock.release()


def _after_in_child() -> None:
    while _held:
        _held.pop().renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
