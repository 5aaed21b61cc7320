"""The SQLite backend: a writer with group commit, and reads beside it."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from agent_handoff_kit.errors import StoreError
from agent_handoff_kit.store import forks
from agent_handoff_kit.store.batch import Job, drive
from agent_handoff_kit.store.database import Database
from agent_handoff_kit.store.failures import is_busy
from agent_handoff_kit.store.file_system import refuse_network_file_system
from agent_handoff_kit.store.steps import Script
from agent_handoff_kit.store.writer import Writer

T = TypeVar("T")


class SQLiteBackend:
    """Runs scripts on one SQLite file, or in memory. See ``Backend`` for what its methods promise."""

    def __init__(
        self, path: str, *, timeout: float = 30.0, durability: str = "full", allow_network_fs: bool = False
    ) -> None:
        self._database = Database(path, durability)
        self.location: str = self._database.location
        if not self._database.in_memory and not allow_network_fs:
            refuse_network_file_system(self.location)
        self._timeout = timeout
        self._closed = False
        self.writer: Writer = Writer(self._database, timeout)
        self._readers: ThreadPoolExecutor | None = None
        self._renew_reading()
        self._open()
        forks.watch(self)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def owner_name(self) -> str:
        """The name of this process as an owner; others can tell whether it still runs."""
        return self._database.owner.name()

    def write(self, script: Callable[[], Script[T]]) -> T:
        """Run a script as one durable transaction."""
        result: T = self.writer.run(Job(script))
        return result

    def submit(self, script: Callable[[], Script[T]]) -> Future[T]:
        """Queue a script; the future ends after the commit."""
        job = Job(script)
        self.writer.submit(job)
        return job.future

    def read(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that only reads, on one snapshot."""
        return self._patiently("read", self._read_lock, lambda: self._read(script))

    def submit_read(self, script: Callable[[], Script[T]]) -> Future[T]:
        """Queue a reading script."""
        self._check_open()
        if self._readers is None:
            self._readers = ThreadPoolExecutor(1, "agent-handoff-kit-reader")
        return self._readers.submit(self.read, script)

    def compact(self) -> None:
        """Rewrite the file without the space of deleted rows, and empty the write-ahead log.

        Raises:
            StoreBusy: the file stayed in use for the timeout.
            StoreError: SQLite refused it.
        """
        self._patiently("compact", self.writer.lock, lambda: self._locked(self._compact))

    def close(self) -> None:
        """Write what is queued, then leave no thread and no file handle."""
        if self._closed:
            return
        self._closed = True
        self.writer.close()
        if self._readers is not None:
            self._readers.shutdown()
        with self.writer.lock:
            self._database.owner.close()
            self._database.close()

    def before_fork(self) -> None:
        """Let the current batch end and close every file; holds the locks until after the fork."""
        self.writer.lock.acquire()
        if not self._database.in_memory:
            self._read_lock.acquire()
            self._database.close()

    def after_fork_in_parent(self) -> None:
        if not self._database.in_memory:
            self._read_lock.release()
        self.writer.lock.release()

    def after_fork_in_child(self) -> None:
        self.writer.renew()
        self._database.owner.after_fork_in_child()
        self._renew_reading()

    def _renew_reading(self) -> None:
        self._read_lock: threading.Lock = self.writer.lock if self._database.in_memory else threading.Lock()
        self._readers = None

    def _open(self) -> None:
        try:
            self._patiently("open", self.writer.lock, lambda: self._locked(self._database.writer))
        except BaseException:
            self._database.close()
            raise

    def _patiently(self, operation: str, lock: threading.Lock, attempt: Callable[[], T]) -> T:
        """Try until the timeout while somebody else holds the file."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                with lock:
                    self._check_open()
                    return attempt()
            except (sqlite3.Error, OSError) as error:
                if not is_busy(error):
                    raise self._database.failure(error, operation) from error
            if time.monotonic() > deadline:
                raise self.writer.busy(operation)
            time.sleep(random.uniform(0.001, 0.005))

    def _locked(self, work: Callable[[], T]) -> T:
        if not self._database.try_lock():
            raise sqlite3.OperationalError("the side lock is busy")
        try:
            return work()
        finally:
            self._database.unlock()

    def _read(self, script: Callable[[], Script[T]]) -> T:
        connection = self._database.reader()
        session = self._database.session(connection)
        if self._database.in_memory:
            return drive(session, script())[0]
        # One snapshot for all steps, so that pruning between two of them is not seen.
        connection.execute("BEGIN")
        try:
            return drive(session, script())[0]
        finally:
            connection.execute("ROLLBACK")

    def _compact(self) -> None:
        connection = self._database.writer()
        connection.execute("VACUUM")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("the write-ahead log is busy")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self.location, "use", "the store is closed")
