"""Which run is being worked on: the scope that tells handoffs inside it their run."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from agent_handoff_kit.serialization import check_text


@dataclass(frozen=True)
class Run:
    """A run that is being worked on in this process."""

    run_id: str
    process_id: int = field(default_factory=os.getpid)


_current: ContextVar[Run | None] = ContextVar("agent_handoff_kit_run", default=None)


def current_run() -> Run | None:
    """The run whose scope the caller is in; None outside one and in a forked child."""
    run = _current.get()
    return run if run is not None and run.process_id == os.getpid() else None


@contextmanager
def running(run_id: str) -> Generator[Run, None, None]:
    """Make this the current run for the block, and for the tasks started in it.

    Raises:
        PayloadError: the run id cannot be stored.
    """
    run = Run(check_text("run_id", run_id))
    token = _current.set(run)
    try:
        yield run
    finally:
        _current.reset(token)
