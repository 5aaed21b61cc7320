"""The SQLite backend: a writer with group commit, and reads beside it."""

from __future__ import annotations

import functools
import random
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from agent_handoff_kit.errors import StoreError
from agent_handoff_kit.store import forks
from agent_handoff_kit.store.batch import drive
from agent_handoff_kit.store.database import Database
from agent_handoff_kit.store.failures import is_busy
from agent_handoff_kit.store.file_system import refuse_network_file_system
from agent_handoff_kit.store.jobs import FutureJob, Job
from agent_handoff_kit.store.steps import Script
from agent_handoff_kit.store.turns import Turn, TurnNested, TurnTaken
from agent_handoff_kit.store.writer import Writer

T = TypeVar("T")

_LAST_MOMENT = 0.05


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
        self._forking: list[Turn] = []
        self._released = False
        self.writer: Writer = Writer(self._database, timeout)
        self._readers: ThreadPoolExecutor | None = None
        self._renew_reading()
        # Before anything is open: no fork may miss it.
        forks.watch(self)
        self._open()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def owner_name(self) -> str:
        """The name of this process as an owner; others can tell whether it still runs."""
        try:
            return self._database.owner.name(self._timeout)
        except TurnNested:
            raise self.writer.nested("own") from None
        except TurnTaken:
            raise self.writer.busy("own") from None

    def write(self, script: Callable[[], Script[T]]) -> T:
        """Run a script as one durable transaction."""
        result: T = self.writer.run(Job(script))
        return result

    def submit(self, script: Callable[[], Script[T]]) -> Future[T]:
        """Queue a script; the future ends after the commit."""
        job = FutureJob(script)
        self.writer.submit(job)
        return job.future

    def read(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that only reads, on one snapshot."""
        return self._patiently("read", self._reading, lambda: self._read(script), self._database.leave_reader)

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
        self._writing("compact", self._compact)

    def close(self) -> None:
        """Write what is queued, then leave no thread and no file handle.

        Raises:
            StoreBusy: another process kept the file locked for the timeout, and what was queued failed; or
                an operation is still at work, and the store is closed by calling again.
        """
        if self._released:
            return
        deadline = time.monotonic() + self._timeout
        self._refuse_nesting("close")
        self._closed = True
        self.writer.close(deadline)
        if self._readers is not None:
            self._readers.shutdown()
        self._within_both(deadline, self._release)

    def before_fork(self) -> None:
        """Let the current batch end and close every file; holds the turns until after the fork."""
        self._forking = [turn for turn in self._turns() if turn.acquire(self._timeout)]
        if not self._database.in_memory and len(self._forking) == len(self._turns()):
            self._database.close()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        while self._forking:
            self._forking.pop().release()

    def after_fork_in_child(self) -> None:
        """Begin anew on the same file."""
        if not self._database.in_memory:
            self._database.abandon()
        self._database.owner.after_fork_in_child()
        self.writer.renew()
        self._renew_reading()

    def _renew_reading(self) -> None:
        self._reading: Turn = self.writer.turn if self._database.in_memory else Turn()
        self._readers = None
        self._forking = []

    def _turns(self) -> list[Turn]:
        return [self.writer.turn] if self._database.in_memory else [self.writer.turn, self._reading]

    def _open(self) -> None:
        try:
            self._writing("open", self._database.writer)
        except BaseException:
            self._database.close()
            raise

    def _writing(self, operation: str, work: Callable[[], T]) -> T:
        return self._patiently(operation, self.writer.turn, lambda: self._locked(work), self._database.leave_writer)

    def _patiently(
        self, operation: str, turn: Turn, attempt: Callable[[], T], tidy: Callable[[BaseException], None]
    ) -> T:
        """Try until the timeout while somebody else holds the file."""
        deadline = time.monotonic() + self._timeout
        while True:
            self._check_open()
            try:
                return turn.run(deadline - time.monotonic(), attempt, tidy)
            except TurnNested:
                raise self.writer.nested(operation) from None
            except TurnTaken:
                raise self.writer.busy(operation) from None
            except (sqlite3.Error, OSError) as error:
                if not is_busy(error):
                    raise self._database.failure(error, operation) from error
            if time.monotonic() > deadline:
                raise self.writer.busy(operation)
            time.sleep(random.uniform(0.001, 0.005))

    def _refuse_nesting(self, operation: str) -> None:
        try:
            for turn in self._turns():
                turn.refuse_nesting()
        except TurnNested:
            raise self.writer.nested(operation) from None

    def _within_both(self, deadline: float, work: Callable[[], None]) -> None:
        # Always the writer's turn first, as before a fork.
        for turn in reversed(self._turns()):
            work = functools.partial(self._within, turn, deadline, work)
        work()

    def _within(self, turn: Turn, deadline: float, work: Callable[[], None]) -> None:
        try:
            turn.run(max(deadline - time.monotonic(), _LAST_MOMENT), work, _nothing_to_tidy)
        except TurnTaken:
            raise self.writer.busy("close") from None

    def _release(self) -> None:
        self._database.release()
        self._released = True

    def _locked(self, work: Callable[[], T]) -> T:
        if not self._database.try_lock():
            raise sqlite3.OperationalError("the side lock is busy")
        try:
            return work()
        finally:
            self._database.unlock()

    def _read(self, script: Callable[[], Script[T]]) -> T:
        self._check_open()
        if self._database.in_memory:
            return drive(self._database.session(self._database.idle_writer()), script())[0]
        connection = self._database.idle_reader()
        try:
            # One snapshot for all steps, so that pruning between two of them is not seen.
            connection.execute("BEGIN")
            return drive(self._database.session(connection), script())[0]
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _compact(self) -> None:
        connection = self._database.idle_writer()
        connection.execute("VACUUM")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("the write-ahead log is busy")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self.location, "use", "the store is closed")


def _nothing_to_tidy(error: BaseException) -> None:
    pass
