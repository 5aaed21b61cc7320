"""Group commit: whatever is queued becomes one transaction, and one fsync."""

from __future__ import annotations

import logging
import random
import sqlite3
import threading
import time
from collections import deque
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from agent_handoff_kit.errors import StoreBusy, StoreError
from agent_handoff_kit.store.batch import Job, OutcomeUnknown, run_alone, run_batch
from agent_handoff_kit.store.database import Database
from agent_handoff_kit.store.failures import is_busy

_logger = logging.getLogger(__name__)

_BATCH = 256
_WAL_BYTES = 4 * 2**20


class Writer:
    """Commits jobs in the order of their arrival.

    A blocking caller that finds nobody writing commits on its own thread; what gathers meanwhile goes to
    the writer thread. ``lock`` is held while the database is written.
    """

    def __init__(self, database: Database, timeout: float) -> None:
        self._database = database
        self._timeout = timeout
        self._written = 0
        self._closed = False
        self.renew()

    def renew(self) -> None:
        """Forget thread, locks and queue: a forked child has none of them."""
        self.lock: threading.Lock = threading.Lock()
        self._wake = threading.Condition()
        self._queue: deque[Job] = deque()
        self._thread: threading.Thread | None = None

    def queued(self) -> int:
        """How many jobs wait to begin."""
        return len(self._queue)

    def run(self, job: Job) -> Any:
        """Queue a job and wait for its end.

        Raises:
            StoreBusy: it could not begin within the timeout; it is not written.
        """
        self._enqueue(job)
        if not (self._commit_here() and job.future.done()):
            self._wake_thread()
        try:
            return job.future.result(self._timeout)
        except FutureTimeoutError:
            if job.future.cancel():
                raise self.busy("write") from None
            return job.future.result()

    def submit(self, job: Job) -> None:
        """Queue a job for the writer thread."""
        self._enqueue(job)
        self._wake_thread()

    def close(self) -> None:
        """Commit what is queued and end the thread; the first call returns when that is done."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._drain()

    def busy(self, operation: str) -> StoreBusy:
        """The error for an operation that could not begin."""
        return StoreBusy(self._database.location, operation, f"it stayed locked for {self._timeout} s")

    def _enqueue(self, job: Job) -> None:
        with self._wake:
            if self._closed:
                raise StoreError(self._database.location, "use", "the store is closed")
            self._queue.append(job)

    def _wake_thread(self) -> None:
        with self._wake:
            if self._thread is None and not self._closed:
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
            with self.lock:
                done = self._commit()
            if not done:
                self._drop_cancelled()
                time.sleep(random.uniform(0.0002, 0.003))

    def _drop_cancelled(self) -> None:
        with self._wake:
            self._queue = deque(job for job in self._queue if not job.future.cancelled())

    def _commit_here(self) -> bool:
        if not self.lock.acquire(blocking=False):
            return False
        try:
            return self._commit()
        finally:
            self.lock.release()

    def _commit(self) -> bool:
        """Begin, take the queue, run it, commit; False if another process or connection is writing."""
        try:
            if not self._database.try_lock():
                return False
        except OSError as error:
            self._fail_queue(error)
            return True
        try:
            return self._begin_and_run()
        finally:
            self._database.unlock()

    def _begin_and_run(self) -> bool:
        try:
            connection = self._database.writer()
            connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, OSError, StoreError) as error:
            if is_busy(error):
                return False
            self._fail_queue(error)
            return True
        jobs = self._take()
        if jobs:
            self._run(connection, jobs)
        else:
            connection.execute("ROLLBACK")
        return True

    def _take(self) -> list[Job]:
        with self._wake:
            taken = [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH))]
        return [job for job in taken if job.future.set_running_or_notify_cancel()]

    def _run(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        try:
            self._written += run_batch(self._database.session(connection), jobs, self._database.location)
        except OutcomeUnknown:
            self._run_again(jobs)
        except BaseException as error:
            self._give_up(jobs, error)
            raise
        else:
            self._checkpoint_when_due(connection)

    def _run_again(self, jobs: list[Job]) -> None:
        """Run each job once more on a new connection.

        After an I/O error the commit may be in the file or not, and the old connection may show a state that
        the file does not have. Scripts recognise what they did before.
        """
        self._database.reset_writer()
        for job in jobs:
            if not job.future.done():
                self._run_once_more(job)

    def _run_once_more(self, job: Job) -> None:
        try:
            self._written += run_alone(self._database.session(self._database.writer()), job, self._database.location)
        except OutcomeUnknown as unknown:
            self._database.reset_writer()
            job.future.set_exception(self._database.failure(unknown.error, "write"))
        except (sqlite3.Error, OSError, StoreError) as error:
            job.future.set_exception(self._database.failure(error, "write"))

    def _give_up(self, jobs: list[Job], error: BaseException) -> None:
        """End what an interrupt or a defect left open, so that nobody waits for it."""
        self._database.reset_writer()
        for job in jobs:
            if not job.future.done():
                reason = f"it was interrupted by {error!r}; whether it is written is not known"
                job.future.set_exception(StoreError(self._database.location, "write", reason))

    def _fail_queue(self, error: sqlite3.Error | OSError | StoreError) -> None:
        for job in self._take():
            job.future.set_exception(self._database.failure(error, "open"))

    def _checkpoint_when_due(self, connection: sqlite3.Connection) -> None:
        # Only our own writes are counted: each process checkpoints what it wrote.
        if self._written <= _WAL_BYTES or self._database.in_memory:
            return
        self._written = 0
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error:
            # The commits before it stand; the next checkpoint takes their pages along.
            _logger.warning("the checkpoint of %s failed", self._database.location, exc_info=True)
