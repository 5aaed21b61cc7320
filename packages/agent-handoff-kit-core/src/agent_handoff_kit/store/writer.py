"""Group commit: whatever is queued becomes one transaction, and one fsync."""

from __future__ import annotations

import logging
import random
import sqlite3
import time
from collections import deque
from typing import Any

from agent_handoff_kit.errors import StoreBusy, StoreError
from agent_handoff_kit.store import service
from agent_handoff_kit.store.batch import OutcomeUnknown, run_alone, run_batch
from agent_handoff_kit.store.database import Database
from agent_handoff_kit.store.failures import is_busy
from agent_handoff_kit.store.jobs import Job
from agent_handoff_kit.store.turns import Turn, TurnNested, TurnTaken

_logger = logging.getLogger(__name__)

_BATCH = 256
_WAL_BYTES = 4 * 2**20
_PATIENCE = 1.0


class Writer:
    """Commits jobs in the order of their arrival.

    A blocking caller that finds nobody writing commits on its own thread; what gathers meanwhile goes to
    the writer thread. ``turn`` is held while the database is written. A job stays in the queue until it has
    ended, so that whoever is interrupted leaves it to the next.
    """

    def __init__(self, database: Database, timeout: float) -> None:
        self._database = database
        self._timeout = timeout
        self._written = 0
        self._closed = False
        self._thread = service.Service(self, database)
        self.renew()

    def renew(self) -> None:
        """Forget thread, turn and queue: a forked child has none of them."""
        self.turn: Turn = Turn()
        self._queue: deque[Job] = deque()
        self._thread.renew(self)

    def queued(self) -> int:
        """How many jobs have not ended."""
        return len(self._queue)

    def run(self, job: Job) -> Any:
        """Queue a job and wait for its end.

        Raises:
            StoreBusy: it could not begin within the timeout; it is not written.
        """
        try:
            self._enqueue(job)
            if not (self._commit_here(job) and job.done):
                self._wake()
                self._wait(job)
        except BaseException:
            job.cancel()
            raise
        return job.outcome()

    def submit(self, job: Job) -> None:
        """Queue a job for the writer thread."""
        self._enqueue(job)
        self._wake()

    def close(self, deadline: float) -> None:
        """Commit what is queued and end the thread; what cannot be written by the deadline fails.

        Args:
            deadline: a time of ``time.monotonic``.
        """
        self._closed = True
        self.drain(deadline)
        for job in list(self._queue):
            if job.cancel():
                job.fail(self.busy("close"))
        self._thread.stop(deadline)

    def busy(self, operation: str) -> StoreBusy:
        """The error for an operation that could not begin."""
        return StoreBusy(self._database.location, operation, f"it stayed locked for {self._timeout} s")

    def nested(self, operation: str) -> StoreBusy:
        """The error for an operation called from inside another one of its own thread."""
        reason = "this thread is in the middle of another operation on it, as in a signal handler"
        return StoreBusy(self._database.location, operation, reason)

    def drain(self, deadline: float = float("inf")) -> None:
        """Commit until nothing is queued; for the writer thread."""
        while self._queue and (left := deadline - time.monotonic()) > 0:
            try:
                done = self.turn.run(min(left, _PATIENCE), self._commit, self._tidy)
            except TurnNested:
                return
            except TurnTaken:
                continue
            if not done:
                time.sleep(random.uniform(0.0002, 0.003))

    def _enqueue(self, job: Job) -> None:
        self._queue.append(job)
        # Asked afterwards: what came before the closing is seen by it.
        if self._closed and job.cancel():
            raise StoreError(self._database.location, "use", "the store is closed")

    def _wake(self) -> None:
        if not self._thread.wake(self):
            # At the interpreter's end there are no new threads.
            self.drain(time.monotonic() + self._timeout)

    def _wait(self, job: Job) -> None:
        deadline = time.monotonic() + self._timeout
        while not job.wait(min(max(deadline - time.monotonic(), 0.0), _PATIENCE)):
            if time.monotonic() >= deadline:
                if job.cancel():
                    raise self.busy("write")
                # It has begun, so it ends.
                deadline = float("inf")
            # Whoever was to commit it may have been interrupted.
            self._wake()

    def _commit_here(self, job: Job) -> bool:
        try:
            return self.turn.run(0.0, self._commit, self._tidy)
        except TurnNested:
            if job.cancel():
                raise self.nested("write") from None
            return False
        except TurnTaken:
            return False

    def _commit(self) -> bool:
        """Begin, take the queue, run it, commit; False if another process or connection is writing."""
        try:
            if not self._database.try_lock():
                return self._drop_cancelled()
        except (OSError, StoreError) as error:
            return self._fail_queue(error)
        try:
            return self._begin_and_run()
        finally:
            self._database.unlock()

    def _begin_and_run(self) -> bool:
        try:
            connection = self._database.idle_writer()
            connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, OSError, StoreError) as error:
            return self._drop_cancelled() if is_busy(error) else self._fail_queue(error)
        seen = self._head()
        jobs = [job for job in seen if job.begin()]
        if jobs:
            self._run(connection, jobs)
        else:
            connection.execute("ROLLBACK")
        self._drop(seen)
        return True

    def _head(self) -> list[Job]:
        # Others only append, so the indexes stay; within the turn nobody else removes.
        return [self._queue[index] for index in range(min(len(self._queue), _BATCH))]

    def _drop(self, seen: list[Job]) -> None:
        for _ in seen:
            self._queue.popleft()

    def _drop_cancelled(self) -> bool:
        for job in list(self._queue):
            if job.cancelled:
                self._queue.remove(job)
        return False

    def _run(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        try:
            self._written += run_batch(self._database.session(connection), jobs, self._database.location)
        except OutcomeUnknown:
            self._run_again(jobs)
        else:
            self._checkpoint_when_due(connection)

    def _run_again(self, jobs: list[Job]) -> None:
        """Run each job once more on a new connection.

        After an I/O error the commit may be in the file or not, and the old connection may show a state that
        the file does not have. Scripts recognise what they did before.
        """
        self._database.reset_writer()
        for job in jobs:
            if not job.done:
                self._run_once_more(job)

    def _run_once_more(self, job: Job) -> None:
        try:
            self._written += run_alone(self._database.session(self._database.writer()), job, self._database.location)
        except OutcomeUnknown as unknown:
            self._database.reset_writer()
            job.fail(self._database.failure(unknown.error, "write"))
        except (sqlite3.Error, OSError, StoreError) as error:
            job.fail(self._database.failure(error, "write"))

    def _tidy(self, error: BaseException) -> None:
        """Take back what an interrupt or a defect left open, and leave its jobs to the writer thread."""
        self._database.leave_writer(error)
        for job in list(self._queue):
            job.put_back()
        if self._queue:
            self._wake()

    def _fail_queue(self, error: sqlite3.Error | OSError | StoreError) -> bool:
        seen = self._head()
        for job in seen:
            if job.begin():
                job.fail(self._database.failure(error, "open"))
        self._drop(seen)
        return True

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
