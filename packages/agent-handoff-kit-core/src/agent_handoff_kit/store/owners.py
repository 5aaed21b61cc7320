"""Who holds a lease: a name for this process, and a locked file that lives as long as it does.

The kernel drops the lock when the process dies, however it dies. So a dead owner is known at once, while
a stopped one keeps its lock and loses its leases by their time.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid

from agent_handoff_kit.store.side_lock import SideLock


class Owner:
    """This process as an owner on one database; in memory it needs no file."""

    def __init__(self, location: str, *, in_memory: bool) -> None:
        self._location = location
        self._in_memory = in_memory
        self._name: str | None = None
        self._lock: SideLock | None = None
        self._naming = threading.Lock()

    def name(self) -> str:
        """This process's name; the first call creates and locks its file."""
        with self._naming:
            return self._name or self._take_name()

    def _take_name(self) -> str:
        name = uuid.uuid4().hex
        if not self._in_memory:
            self._lock = SideLock(self._path(name))
            self._lock.try_acquire()
        self._name = name
        return name

    def is_alive(self, owner: str) -> bool:
        """Whether the process of an owner (``process:scope``) runs; a stopped one does."""
        process = owner.partition(":")[0]
        if process == self._name:
            return True
        return not self._in_memory and self._is_locked(self._path(process))

    def after_fork_in_child(self) -> None:
        """Let go of the parent's file without unlocking it; a child is an owner of its own."""
        if self._lock is not None:
            self._lock.close()
        self._lock = None
        self._name = None
        self._naming = threading.Lock()

    def close(self) -> None:
        """Remove this process's file: what it still holds counts as left by a dead owner."""
        if self._lock is not None and self._name is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(self._name))
            self._lock.close()
        self._lock = None
        self._name = None

    def _path(self, process: str) -> str:
        return f"{self._location}-owner-{process}"

    def _is_locked(self, path: str) -> bool:
        if not os.path.exists(path):
            return False
        probe = SideLock(path)
        try:
            if not probe.try_acquire():
                return True
            # Its owner is dead; nobody will need the file again.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return False
        finally:
            probe.close()
