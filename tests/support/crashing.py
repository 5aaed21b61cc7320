"""Kill a process at its Nth crash point, for every N.

A crash point is a place where a process may die: each SQL statement, and each place that the work under test names.
The work runs in a forked child, so that it can die by SIGKILL, without ``finally`` and without ``atexit``.
"""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Point = Callable[[str], None]


@dataclass
class Points:
    """Counts the crash points that a process passes, and kills it at one of them; 0 for none."""

    kill_at: int = 0
    passed: list[str] = field(default_factory=list[str])

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Outcome:
    """How a child ended: killed, or with a value or an error, after these points."""

    killed: bool
    value: Any = None
    error: BaseException | None = None
    points: tuple[str, ...] = ()


def run_and_die(work: Callable[[Point], Any], kill_at: int = 0) -> Outcome:
    """Run the work in a child that dies at a crash point."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _serve(work, Points(kill_at), writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        report = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGKILL:
        return Outcome(killed=True)
    assert code == 0, f"the child ended with {code}"
    value, error, points = pickle.loads(report)
    return Outcome(False, value, error, points)


def _serve(work: Callable[[Point], Any], points: Points, writing: int) -> None:
    try:
        _trace_statements(points)
        value, error = None, None
        try:
            value = work(points)
        except Exception as raised:
            error = raised
        os.write(writing, pickle.dumps((value, error, tuple(points.passed))))
        os._exit(0)
    finally:
        os._exit(1)


def _trace_statements(points: Points) -> None:
    connect = sqlite3.connect

    def traced(database: Any, *args: Any, **kwargs: Any) -> sqlite3.Connection:
        name = Path(str(database)).stem
        points(f"{name} open")
        connection: sqlite3.Connection = connect(database, *args, **kwargs)
        # The callback fires before each statement, so the next one is the point after it.
        connection.set_trace_callback(lambda statement: points(f"{name} {statement.split(maxsplit=1)[0]}"))
        return connection

    setattr(sqlite3, connect.__name__, traced)
