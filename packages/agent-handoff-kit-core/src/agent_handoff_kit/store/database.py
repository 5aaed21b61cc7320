"""One SQLite database as this process holds it: its connections and its side lock."""

from __future__ import annotations

import sqlite3

from agent_handoff_kit.errors import HandoffKitError, StoreUnavailable
from agent_handoff_kit.store.connections import MEMORY, create_private, open_reader, open_writer
from agent_handoff_kit.store.failures import translate
from agent_handoff_kit.store.file_system import locate
from agent_handoff_kit.store.owners import Owner
from agent_handoff_kit.store.session import Session
from agent_handoff_kit.store.side_lock import SideLock

# Connections that a fork in the middle of an operation brought into this process, and their files. Closing
# one would disturb the parent, and SQLite takes the parent's locks on the file for locks of this process.
_inherited: list[sqlite3.Connection] = []
_not_to_be_opened: set[str] = set()


class Database:
    """Opens what is asked for at first use, and again after ``close``. The callers hold the locks."""

    def __init__(self, path: str, durability: str) -> None:
        self.in_memory: bool = path == MEMORY
        self.location: str = path if self.in_memory else locate(path)
        self._durability = durability
        self._side_lock = None if self.in_memory else SideLock(f"{self.location}-lock", self.location)
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        # Not to be used any more; an interrupt may have come before it was closed, or after.
        self._reader_is_left = self._writer_is_left = False
        self.owner: Owner = Owner(self.location, in_memory=self.in_memory)

    def try_lock(self) -> bool:
        """Take the side lock; False while another process or another store of this one holds it."""
        self._require_clean_fork()
        return self._side_lock is None or self._side_lock.try_acquire()

    def unlock(self) -> None:
        if self._side_lock is not None:
            self._side_lock.release()

    def writer(self) -> sqlite3.Connection:
        """The connection that writes; opening it needs the side lock."""
        if self._writer_is_left:
            self._drop_writer()
        if self._writer is None:
            if not self.in_memory:
                create_private(self.location)
            self._writer = open_writer(self.location, self._durability)
        return self._writer

    def reader(self) -> sqlite3.Connection:
        """The connection that reads; in memory there is one for all."""
        if self.in_memory:
            return self.writer()
        if self._reader_is_left:
            self._reset_reader()
        if self._reader is None:
            self._require_clean_fork()
            self._reader = open_reader(self.location)
        return self._reader

    def session(self, connection: sqlite3.Connection) -> Session:
        """What steps run on."""
        return Session(connection, self.owner)

    def idle_writer(self) -> sqlite3.Connection:
        """The connection that writes, without a transaction."""
        if self._writer is not None and not self._writer_is_left and self._writer.in_transaction:
            self.reset_writer()
        return self.writer()

    def idle_reader(self) -> sqlite3.Connection:
        """The connection that reads, without a transaction; in memory as the writer left it."""
        if self._reader is not None and not self._reader_is_left and self._reader.in_transaction:
            self._reset_reader()
        return self.reader()

    def leave_writer(self, error: BaseException) -> None:
        """Take back what work that ended with this error left open, and free the side lock."""
        try:
            if _is_interrupt(error):
                self.reset_writer()
        finally:
            self.unlock()

    def leave_reader(self, error: BaseException) -> None:
        """Take back what a read that ended with this error left open."""
        if self.in_memory:
            self.leave_writer(error)
        elif _is_interrupt(error):
            self._reset_reader()

    def reset_writer(self) -> None:
        """Leave behind whatever the writing connection left open."""
        # A database in memory lives as long as its one connection.
        if not self.in_memory:
            self._drop_writer()
        elif self._writer is not None and self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _drop_writer(self) -> None:
        # It is held until it is closed: lost with an open transaction, it would lock the file until it is collected.
        self._writer_is_left = True
        _close(self._writer)
        self._writer = None
        self._writer_is_left = False

    def _reset_reader(self) -> None:
        self._reader_is_left = True
        _close(self._reader)
        self._reader = None
        self._reader_is_left = False

    def close(self) -> None:
        """Close the connections and the lock file."""
        self._reset_reader()
        self._drop_writer()
        if self._side_lock is not None:
            self._side_lock.close()

    def release(self) -> None:
        """Close everything and let go of what this process owns."""
        self.owner.close()
        self.close()

    def abandon(self) -> None:
        """Let go, in a forked child, of what could not be closed before the fork."""
        left = [one for one in (self._reader, self._writer) if one is not None]
        if left:
            _inherited.extend(left)
            _not_to_be_opened.add(self.location)
        self._reader = self._writer = None
        if self._side_lock is not None:
            self._side_lock.close()

    def _require_clean_fork(self) -> None:
        if self.location in _not_to_be_opened:
            reason = "this process was forked in the middle of an operation on it; use it from another process"
            raise StoreUnavailable(self.location, "open", reason)

    def failure(self, error: BaseException, operation: str) -> BaseException:
        """The kit's error for one of SQLite's or of the operating system's."""
        if isinstance(error, OSError):
            error = sqlite3.OperationalError(f"unable to open{_named(error)}: {error.strerror}")
        return translate(error, self.location, operation)


def _is_interrupt(error: BaseException) -> bool:
    """Whether work ended where it did not mean to, so that its connection may hold anything."""
    return not isinstance(error, (sqlite3.Error, HandoffKitError))


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        connection.close()


def _named(error: OSError) -> str:
    return f" {error.filename}" if error.filename else ""
