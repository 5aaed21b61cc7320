"""One SQLite database as this process holds it: its connections and its side lock."""

from __future__ import annotations

import os
import sqlite3

from agent_handoff_kit.store.connections import MEMORY, create_private, open_reader, open_writer
from agent_handoff_kit.store.failures import translate
from agent_handoff_kit.store.owners import Owner
from agent_handoff_kit.store.session import Session
from agent_handoff_kit.store.side_lock import SideLock


class Database:
    """Opens what is asked for at first use, and again after ``close``. The callers hold the locks."""

    def __init__(self, path: str, durability: str) -> None:
        self.in_memory: bool = path == MEMORY
        self.location: str = path if self.in_memory else os.path.abspath(path)
        self._durability = durability
        self._side_lock = None if self.in_memory else SideLock(f"{self.location}-lock")
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self.owner: Owner = Owner(self.location, in_memory=self.in_memory)

    def try_lock(self) -> bool:
        """Take the side lock; False while another process or another store of this one holds it."""
        return self._side_lock is None or self._side_lock.try_acquire()

    def unlock(self) -> None:
        if self._side_lock is not None:
            self._side_lock.release()

    def writer(self) -> sqlite3.Connection:
        """The connection that writes; opening it needs the side lock."""
        if self._writer is None:
            if not self.in_memory:
                create_private(self.location)
            self._writer = open_writer(self.location, self._durability)
        return self._writer

    def reader(self) -> sqlite3.Connection:
        """The connection that reads; in memory there is one for all."""
        if self.in_memory:
            return self.writer()
        if self._reader is None:
            self._reader = open_reader(self.location)
        return self._reader

    def session(self, connection: sqlite3.Connection) -> Session:
        """What steps run on."""
        return Session(connection, self.owner)

    def reset_writer(self) -> None:
        """Leave behind whatever the writing connection left open."""
        if self._writer is None:
            return
        # A database in memory lives as long as its one connection.
        if not self.in_memory:
            self._writer.close()
            self._writer = None
        elif self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connections and the lock file."""
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None
        if self._side_lock is not None:
            self._side_lock.close()

    def failure(self, error: BaseException, operation: str) -> BaseException:
        """The kit's error for one of SQLite's or of the operating system's."""
        if isinstance(error, OSError):
            error = sqlite3.OperationalError(f"unable to open: {error.strerror}")
        return translate(error, self.location, operation)
