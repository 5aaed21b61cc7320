"""The lock file beside the database: one process writes or checkpoints at a time.

SQLite before 3.51.3 can corrupt a WAL file when one connection commits beside another's checkpoint
(sqlite.org/wal.html, "WAL-reset bug"). Processes that hold this lock for both cannot meet that.
The kernel frees it when its holder dies.
"""

from __future__ import annotations

import os
import sys


class SideLock:
    """An exclusive lock between processes, tried without waiting."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock; False while another process holds it."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        return _try_lock(self._descriptor)

    def release(self) -> None:
        if self._descriptor is not None:
            _unlock(self._descriptor)

    def close(self) -> None:
        """Release the lock and its file handle."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
