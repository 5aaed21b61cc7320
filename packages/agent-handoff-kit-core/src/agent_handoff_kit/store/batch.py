"""Running queued scripts: many in one transaction, each with a future of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent_handoff_kit.store.failures import is_outcome_unknown, translate
from agent_handoff_kit.store.session import Session
from agent_handoff_kit.store.statements import execute
from agent_handoff_kit.store.steps import Script, Step

T = TypeVar("T")

_PAGES_PER_OPERATION = 5 * 4096


@dataclass(eq=False)
class Job:
    """One script in the queue, made anew for each time it runs."""

    script: Callable[[], Script[Any]]
    future: Future[Any] = field(default_factory=lambda: Future[Any]())


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

    Raises:
        OutcomeUnknown: an I/O error; the futures of jobs that may be written or not are still open.

    A full disk rolls the whole transaction back, savepoints included: then each job runs again in a
    transaction of its own, and no future ends before its commit.
    """
    if len(jobs) == 1:
        return _run_single(session, jobs[0], location)
    try:
        outcomes, written = _run_all(session, jobs)
        session.connection.execute("COMMIT")
    except sqlite3.Error as error:
        _leave(session, error)
        return sum(run_alone(session, job, location) for job in jobs)
    for job, outcome in zip(jobs, outcomes, strict=True):
        outcome(job.future)
    return written


def run_alone(session: Session, job: Job, location: str) -> int:
    """Run a begun job in a transaction of its own; the bytes written, roughly.

    Raises:
        OutcomeUnknown: an I/O error; the job's future is still open.
    """
    try:
        session.connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        job.future.set_exception(translate(error, location, "write"))
        return 0
    return _run_single(session, job, location)


def _run_single(session: Session, job: Job, location: str) -> int:
    try:
        value, written = drive(session, job.script())
        session.connection.execute("COMMIT")
    except Exception as error:
        _leave(session, error)
        job.future.set_exception(translate(error, location, "write"))
        return 0
    job.future.set_result(value)
    return written


def _run_all(session: Session, jobs: list[Job]) -> tuple[list[Callable[[Future[Any]], None]], int]:
    outcomes: list[Callable[[Future[Any]], None]] = []
    written = 0
    for job in jobs:
        session.connection.execute("SAVEPOINT operation")
        try:
            value, size = drive(session, job.script())
        except sqlite3.Error:
            raise
        except Exception as error:
            session.connection.execute("ROLLBACK TO operation")
            outcomes.append(_failing(error))
        else:
            outcomes.append(_succeeding(value))
            written += size
        session.connection.execute("RELEASE operation")
    return outcomes, written


def _succeeding(value: Any) -> Callable[[Future[Any]], None]:
    return lambda future: future.set_result(value)


def _failing(error: Exception) -> Callable[[Future[Any]], None]:
    return lambda future: future.set_exception(error)


def _leave(session: Session, error: Exception) -> None:
    if isinstance(error, sqlite3.Error) and is_outcome_unknown(error):
        raise OutcomeUnknown(error) from error
    if session.connection.in_transaction:
        session.connection.execute("ROLLBACK")


def _weight(step: Step) -> int:
    return sum(len(value) for value in step if type(value) is bytes)
