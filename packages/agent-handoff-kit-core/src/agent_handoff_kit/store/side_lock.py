"""The lock file beside the database: one process writes or checkpoints at a time.

SQLite before 3.51.3 can corrupt a WAL file when one connection commits beside another's checkpoint
(sqlite.org/wal.html, "WAL-reset bug"). Processes that hold this lock for both cannot meet that.
The kernel frees it when its holder dies.
"""

from __future__ import annotations

import contextlib
import os
import sys


class SideLock:
    """An exclusive lock between processes, tried without waiting.

    Args:
        path: the lock file.
        database: the file it stands beside; whoever may write that one may lock.
    """

    def __init__(self, path: str, database: str) -> None:
        self._path = path
        self._database = database
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock; False while another process holds it."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
            _share(self._descriptor, self._database)
        return _try_lock(self._descriptor)

    def try_existing(self) -> bool:
        """Take the lock of a file that is there.

        Raises:
            FileNotFoundError: it is not.
        """
        self._descriptor = os.open(self._path, os.O_RDWR)
        return _try_lock(self._descriptor)

    def release(self) -> None:
        if self._descriptor is not None:
            _unlock(self._descriptor)

    def close(self) -> None:
        """Release the lock and its file handle."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _share(descriptor: int, database: str) -> None:
    """Give a file the database's mode and owners as far as this user may, as SQLite does with its side files."""
    if sys.platform == "win32":
        return
    try:
        model = os.stat(database)
    except FileNotFoundError:
        return
    found = os.fstat(descriptor)
    # Owners first: a change of them may clear bits of the mode.
    if (found.st_uid, found.st_gid) != (model.st_uid, model.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, model.st_uid if os.geteuid() == 0 else -1, model.st_gid)
    if (found.st_mode ^ model.st_mode) & 0o666:
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, model.st_mode & 0o666)


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
