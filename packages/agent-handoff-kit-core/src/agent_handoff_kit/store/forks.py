"""No SQLite connection and no lock descriptor crosses a fork.

A child that inherits a connection holds no POSIX locks on the file, and its commits can be lost when
the parent closes. So the current batch ends, everything is closed, and both sides open again at next use.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """What a backend does around a fork."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


_watched: weakref.WeakSet[Forkable] = weakref.WeakSet()
_forking: list[Forkable] = []


def watch(backend: Forkable) -> None:
    """Tell this backend of every fork of the process."""
    _watched.add(backend)


def _before() -> None:
    for backend in list(_watched):
        backend.before_fork()
        _forking.append(backend)


def _after_in_parent() -> None:
    while _forking:
        _forking.pop().after_fork_in_parent()


def _after_in_child() -> None:
    while _forking:
        _forking.pop().after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
