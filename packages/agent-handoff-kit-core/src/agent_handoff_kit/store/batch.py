"""Running queued scripts: many in one transaction, each with an end of its own."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple, TypeVar

from agent_handoff_kit.store.failures import is_outcome_unknown, translate
from agent_handoff_kit.store.jobs import Job
from agent_handoff_kit.store.session import Session
from agent_handoff_kit.store.statements import execute
from agent_handoff_kit.store.steps import Script, Step

T = TypeVar("T")

_PAGES_PER_OPERATION = 5 * 4096


class Outcome(NamedTuple):
    """What a script came to, to be told after the commit."""

    value: Any
    error: Exception | None = None

    def end(self, job: Job) -> None:
        if self.error is None:
            job.succeed(self.value)
        else:
            job.fail(self.error)


class OutcomeUnknown(Exception):
    """A commit failed by an I/O error; what it wrote may be in the file."""

    def __init__(self, error: sqlite3.Error) -> None:
        super().__init__(error)
        self.error = error


def drive(session: Session, script: Script[T]) -> tuple[T, int]:
    """Run a script to its end; its result and the bytes it wrote, roughly."""
    written = _PAGES_PER_OPERATION
    try:
        step = next(script)
        while True:
            written += _weight(step)
            step = script.send(execute(session, step))
    except StopIteration as done:
        return done.value, written


def run_batch(session: Session, jobs: list[Job], location: str) -> int:
    """Run begun jobs in the open transaction and commit; the bytes written, roughly.

    An interrupt ends the jobs whose transaction is committed, and leaves the others as they are.

    Raises:
        OutcomeUnknown: an I/O error; jobs that may be written or not are not ended.

    A full disk rolls the whole transaction back, savepoints included: then each job runs again in a
    transaction of its own, and no job ends before its commit.
    """
    if len(jobs) == 1:
        return _run_single(session, jobs[0], location)
    try:
        outcomes, written = _run_all(session, jobs)
        _commit(session, jobs, outcomes)
    except sqlite3.Error as error:
        _leave(session, error)
        return sum(run_alone(session, job, location) for job in jobs)
    return written


def run_alone(session: Session, job: Job, location: str) -> int:
    """Run a begun job in a transaction of its own; the bytes written, roughly.

    Raises:
        OutcomeUnknown: an I/O error; the job is not ended.
    """
    try:
        session.connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        job.fail(translate(error, location, "write"))
        return 0
    return _run_single(session, job, location)


def _run_single(session: Session, job: Job, location: str) -> int:
    try:
        value, written = drive(session, job.script())
    except Exception as error:
        return _failed(session, job, location, error)
    try:
        _commit(session, [job], [Outcome(value)])
    except sqlite3.Error as error:
        return _failed(session, job, location, error)
    return written


def _failed(session: Session, job: Job, location: str, error: Exception) -> int:
    _leave(session, error)
    job.fail(translate(error, location, "write"))
    return 0


def _run_all(session: Session, jobs: list[Job]) -> tuple[list[Outcome], int]:
    outcomes: list[Outcome] = []
    written = 0
    for job in jobs:
        session.connection.execute("SAVEPOINT operation")
        try:
            value, size = drive(session, job.script())
        except sqlite3.Error:
            raise
        except Exception as error:
            session.connection.execute("ROLLBACK TO operation")
            outcomes.append(Outcome(None, error))
        else:
            outcomes.append(Outcome(value))
            written += size
        session.connection.execute("RELEASE operation")
    return outcomes, written


def _commit(session: Session, jobs: list[Job], outcomes: list[Outcome]) -> None:
    try:
        session.connection.execute("COMMIT")
        _end_all(jobs, outcomes)
    except sqlite3.Error:
        raise
    except BaseException:
        # An interrupt comes before the commit or after it, never within.
        if not session.connection.in_transaction:
            _end_all(jobs, outcomes)
        raise


def _end_all(jobs: list[Job], outcomes: list[Outcome]) -> None:
    for job, outcome in zip(jobs, outcomes, strict=True):
        outcome.end(job)


def _leave(session: Session, error: Exception) -> None:
    if isinstance(error, sqlite3.Error) and is_outcome_unknown(error):
        raise OutcomeUnknown(error) from error
    if session.connection.in_transaction:
        session.connection.execute("ROLLBACK")


def _weight(step: Step) -> int:
    return sum(len(value) for value in step if type(value) is bytes)
