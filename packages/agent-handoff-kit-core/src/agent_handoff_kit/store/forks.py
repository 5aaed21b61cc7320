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
    """What a backend does around a fork."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


_watched: weakref.WeakSet[Forkable] = weakref.WeakSet()
# Held from before a fork until after it: threads that fork at the same moment do so one after another, and
# no backend opens its file in between. Reentrant for a fork in a signal handler.
_one_fork = threading.RLock()
_forking: list[list[Forkable]] = []


def watch(backend: Forkable) -> None:
    """Tell this backend of every fork of the process; before it opens anything."""
    with _one_fork:
        _watched.add(backend)


def _before() -> None:
    _one_fork.acquire()
    backends: list[Forkable] = []
    _forking.append(backends)
    for backend in list(_watched):
        backends.append(backend)
        backend.before_fork()


def _after_in_parent() -> None:
    for backend in _forking.pop():
        backend.after_fork_in_parent()
    _one_fork.release()


def _after_in_child() -> None:
    global _one_fork
    _one_fork = threading.RLock()
    backends = _forking.pop()
    _forking.clear()
    for backend in backends:
        backend.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
