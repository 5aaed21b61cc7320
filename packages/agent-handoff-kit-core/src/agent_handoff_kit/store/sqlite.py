"""The SQLite backend: group commit, one writer at a time, readers beside it."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from agent_handoff_kit.errors import StoreBusy, StoreError
from agent_handoff_kit.store import forks
from agent_handoff_kit.store.batch import Job, OutcomeUnknown, drive, run_alone, run_batch
from agent_handoff_kit.store.connections import MEMORY, create_private, open_reader, open_writer
from agent_handoff_kit.store.failures import is_busy, translate
from agent_handoff_kit.store.file_system import refuse_network_file_system
from agent_handoff_kit.store.scripts import Script
from agent_handoff_kit.store.side_lock import SideLock

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_BATCH = 256
_WAL_BYTES = 4 * 2**20


class SQLiteBackend:
    """Runs scripts on one SQLite file, or in memory.

    A blocking caller that finds the queue empty commits on its own thread; whatever gathers meanwhile
    goes to the writer thread, which commits it in one transaction.
    """

    def __init__(
        self,
        path: str,
        *,
        timeout: float = 30.0,
        durability: str = "full",
        allow_network_fs: bool = False,
    ) -> None:
        self.location: str = path if path == MEMORY else os.path.abspath(path)
        self._timeout = timeout
        self._durability = durability
        self._lock = None if path == MEMORY else SideLock(f"{self.location}-lock")
        self._written = 0
        self._closed = False
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._readers: ThreadPoolExecutor | None = None
        self.renew_locks()
        if self._lock is not None and not allow_network_fs:
            refuse_network_file_system(self.location)
        self._open()
        forks.watch(self)

    def renew_locks(self) -> None:
        """Forget threads, locks and queue: a forked child has none of them."""
        self.work_lock: threading.Lock = threading.Lock()
        self.read_lock: threading.Lock = self.work_lock if self._lock is None else threading.Lock()
        self._mutex = threading.Lock()
        self._wake = threading.Condition(self._mutex)
        self._queue: deque[Job] = deque()
        self._thread: threading.Thread | None = None
        self._readers = None

    def write(self, script: Callable[[], Script[T]]) -> T:
        """Run a script as one durable transaction.

        Raises:
            StoreBusy: it could not begin within the timeout; nothing is written.
            StoreError: SQLite refused it.
        """
        job = self._enqueue(Job(script))
        if not (self._commit_inline() and job.future.done()):
            self._wake_writer()
        result: T = self._await(job)
        return result

    def submit(self, script: Callable[[], Script[T]]) -> Future[T]:
        """Queue a script; the future ends after the commit."""
        job = self._enqueue(Job(script))
        self._wake_writer()
        return job.future

    def read(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""
        deadline = time.monotonic() + self._timeout
        while True:
            with self.read_lock:
                self._check_open()
                try:
                    return self._read_once(script)
                except sqlite3.Error as error:
                    if not is_busy(error) or time.monotonic() > deadline:
                        raise translate(error, self.location, "read") from error
            time.sleep(random.uniform(0.001, 0.005))

    def _read_once(self, script: Callable[[], Script[T]]) -> T:
        connection = self._reading_connection()
        if self._lock is None:
            return drive(connection, script())[0]
        # One snapshot for all steps, so that pruning between two of them is not seen.
        connection.execute("BEGIN")
        try:
            return drive(connection, script())[0]
        finally:
            connection.execute("ROLLBACK")

    def compact(self) -> None:
        """Rewrite the file without the space of deleted rows.

        Raises:
            StoreBusy: the file stayed in use for the timeout.
            StoreError: SQLite refused it.
        """
        deadline = time.monotonic() + self._timeout
        while not self._compact_now():
            if time.monotonic() > deadline:
                raise StoreBusy(self.location, "compact", f"it stayed in use for {self._timeout} s")
            time.sleep(random.uniform(0.001, 0.01))

    def _compact_now(self) -> bool:
        with self.work_lock:
            self._check_open()
            if not self._acquire():
                return False
            try:
                connection = self._writing_connection()
                connection.execute("VACUUM")
                row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return bool(row[0] == 0)
            except sqlite3.Error as error:
                if is_busy(error):
                    return False
                raise translate(error, self.location, "compact") from error
            finally:
                self._release()

    def submit_read(self, script: Callable[[], Script[T]]) -> Future[T]:
        """Queue a reading script."""
        self._check_open()
        if self._readers is None:
            self._readers = ThreadPoolExecutor(1, "agent-handoff-kit-reader")
        return self._readers.submit(self.read, script)

    def close(self) -> None:
        """Write what is queued, then leave no thread and no file handle."""
        with self._wake:
            if self._closed:
                return
            self._closed = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self._readers is not None:
            self._readers.shutdown()
        self._drain()
        with self.work_lock:
            self.release_files()

    def release_files(self) -> None:
        """Close connections and lock file; the next use opens them again. The caller holds the locks."""
        self.release_writer()
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._lock is not None:
            self._lock.close()

    def release_writer(self) -> None:
        """Close the writing connection, and with it what it left open."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _reset_writer(self) -> None:
        # A database in memory lives as long as its one connection.
        if self._lock is not None:
            self.release_writer()
        elif self._writer is not None and self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    @property
    def lives_in_memory(self) -> bool:
        return self._lock is None

    def _open(self) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                with self.work_lock:
                    if self._acquire():
                        try:
                            self._writing_connection()
                            return
                        finally:
                            self._release()
            except (sqlite3.Error, OSError) as error:
                if not is_busy(error):
                    self.release_files()
                    raise self._opening_error(error) from error
            if time.monotonic() > deadline:
                self.release_files()
                raise StoreBusy(self.location, "open", f"it stayed locked for {self._timeout} s")
            time.sleep(random.uniform(0.001, 0.01))

    def _opening_error(self, error: sqlite3.Error | OSError | StoreError) -> BaseException:
        if isinstance(error, OSError):
            return translate(sqlite3.OperationalError(f"unable to open: {error.strerror}"), self.location, "open")
        return translate(error, self.location, "open")

    def _enqueue(self, job: Job) -> Job:
        with self._mutex:
            self._check_open()
            self._queue.append(job)
        return job

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self.location, "use", "the store is closed")

    def _commit_inline(self) -> bool:
        """Commit the queue here if nobody else is writing; False leaves it to the writer thread."""
        if not self.work_lock.acquire(blocking=False):
            return False
        try:
            return self._commit_queue()
        finally:
            self.work_lock.release()

    def _await(self, job: Job) -> Any:
        try:
            return job.future.result(self._timeout)
        except FutureTimeoutError:
            if job.future.cancel():
                raise StoreBusy(self.location, "write", f"it stayed locked for {self._timeout} s") from None
            return job.future.result()

    def _wake_writer(self) -> None:
        with self._wake:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="agent-handoff-kit-writer", daemon=True)
                self._thread.start()
            self._wake.notify()

    def _serve(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
            self._drain()

    def _drain(self) -> None:
        while self._queue:
            with self.work_lock:
                done = self._commit_queue()
            if not done:
                self._drop_cancelled()
                time.sleep(random.uniform(0.0002, 0.003))

    def _drop_cancelled(self) -> None:
        with self._mutex:
            self._queue = deque(job for job in self._queue if not job.future.cancelled())

    def _commit_queue(self) -> bool:
        """Begin, take the queue, run it, commit; False if another connection or process is writing."""
        try:
            if not self._acquire():
                return False
        except OSError as error:
            self._fail_queue(error)
            return True
        try:
            return self._begin_and_run()
        finally:
            self._release()

    def _begin_and_run(self) -> bool:
        try:
            connection = self._writing_connection()
            connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, OSError, StoreError) as error:
            if is_busy(error):
                return False
            self._fail_queue(error)
            return True
        jobs = self._take()
        if not jobs:
            connection.execute("ROLLBACK")
            return True
        try:
            self._written += run_batch(connection, jobs, self.location)
        except OutcomeUnknown:
            self._run_again(jobs)
            return True
        except BaseException as error:
            self._give_up(jobs, error)
            raise
        self._after_commit(connection)
        return True

    def _run_again(self, jobs: list[Job]) -> None:
        """Run each job once more on a new connection.

        After an I/O error the commit may be in the file or not, and the old connection may show a state that
        the file does not have. Scripts recognise what they did before.
        """
        self._reset_writer()
        for job in jobs:
            if not job.future.done():
                self._run_once_more(job)

    def _run_once_more(self, job: Job) -> None:
        try:
            connection = self._writing_connection()
            self._written += run_alone(connection, job, self.location)
        except OutcomeUnknown as unknown:
            self._reset_writer()
            job.future.set_exception(translate(unknown.error, self.location, "write"))
        except (sqlite3.Error, OSError, StoreError) as error:
            job.future.set_exception(self._opening_error(error))

    def _give_up(self, jobs: list[Job], error: BaseException) -> None:
        """End what an interrupt or a defect left open, so that nobody waits for it."""
        self._reset_writer()
        for job in jobs:
            if not job.future.done():
                job.future.set_exception(StoreError(self.location, "write", f"it was interrupted by {error!r}"))

    def _take(self) -> list[Job]:
        with self._mutex:
            taken = [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH))]
        return [job for job in taken if job.future.set_running_or_notify_cancel()]

    def _fail_queue(self, error: sqlite3.Error | OSError | StoreError) -> None:
        for job in self._take():
            job.future.set_exception(self._opening_error(error))

    def _after_commit(self, connection: sqlite3.Connection) -> None:
        # Only our own writes are counted: each process checkpoints what it wrote.
        if self._written > _WAL_BYTES and self._lock is not None:
            self._written = 0
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except sqlite3.Error:
                # The commits before it stand; the next checkpoint takes their pages along.
                _logger.warning("the checkpoint of %s failed", self.location, exc_info=True)

    def _acquire(self) -> bool:
        return self._lock is None or self._lock.try_acquire()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _writing_connection(self) -> sqlite3.Connection:
        if self._writer is None:
            if self._lock is not None:
                create_private(self.location)
            self._writer = open_writer(self.location, self._durability)
        return self._writer

    def _reading_connection(self) -> sqlite3.Connection:
        if self._lock is None:
            return self._writing_connection()
        if self._reader is None:
            self._reader = open_reader(self.location)
        return self._reader
