"""Who holds a lease: a name for this process, and a locked file that lives as long as it does.

The kernel drops the lock when the process dies, however it dies. So a dead owner is known at once, while
a stopped one keeps its lock and loses its leases by their time.
"""

from __future__ import annotations

import contextlib
import os
import uuid

from agent_handoff_kit.store.side_lock import SideLock
from agent_handoff_kit.store.turns import Turn


class Owner:
    """This process as an owner on one database; in memory it needs no file."""

    def __init__(self, location: str, *, in_memory: bool) -> None:
        self._location = location
        self._in_memory = in_memory
        self._begin_anew()

    def name(self, seconds: float) -> str:
        """This process's name; the first call creates and locks its file.

        Raises:
            TurnTaken: another call took longer than these seconds to do so.
        """
        return self._name or self._naming.run(seconds, self._take_name, _keep_what_is_there)

    def is_alive(self, owner: str) -> bool:
        """Whether the process of an owner (``process:scope``) runs; a stopped one does."""
        process = owner.partition(":")[0]
        if process == self._name:
            return True
        return not self._in_memory and _is_locked(self._path(process), self._location)

    def after_fork_in_child(self) -> None:
        """Let go of the parent's file without unlocking it; a child is an owner of its own."""
        if self._lock is not None:
            self._lock.close()
        self._begin_anew()

    def close(self) -> None:
        """Remove this process's file: what it still holds counts as left by a dead owner."""
        if self._lock is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(self._candidate))
            self._lock.close()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._name: str | None = None
        self._candidate = uuid.uuid4().hex
        self._lock: SideLock | None = None
        self._naming = Turn()

    def _take_name(self) -> str:
        if not self._in_memory:
            # Kept from an attempt that was interrupted, with the file it may have made.
            self._lock = self._lock or SideLock(self._path(self._candidate), self._location)
            self._lock.try_acquire()
        self._name = self._candidate
        return self._name

    def _path(self, process: str) -> str:
        return f"{self._location}-owner-{process}"


def _is_locked(path: str, database: str) -> bool:
    probe = SideLock(path, database)
    try:
        if not probe.try_existing():
            return True
        # Its owner is dead; nobody will need the file again.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return False
    except FileNotFoundError:
        return False
    except PermissionError:
        # Another user's, who may be at work; the lease ends by its time.
        return True
    finally:
        probe.close()


def _keep_what_is_there(error: BaseException) -> None:
    pass
