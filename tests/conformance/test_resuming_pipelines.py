"""A pipeline's run goes on from what is kept of it, without the caller that started it."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from typing import Any

import pytest

from agent_handoff_kit import Pipeline, Relay, Step
from agent_handoff_kit.errors import NothingToResume, StoreDamaged, UnknownAgent

# The same steps in a process that dies in one of them, and in the one that goes on.
STEPS = """
import os, signal
from dataclasses import dataclass
from agent_handoff_kit import Pipeline, Step

@dataclass
class Ticket:
    ticket_id: str

def pipeline(relay, dies_in=None):
    def enter(name):
        if name == dies_in:
            os.kill(os.getpid(), signal.SIGKILL)

    def triage(ticket: Ticket):
        enter("triage")
        assert isinstance(ticket, Ticket)
        return {"ticket_id": ticket.ticket_id, "amount": 500}

    def resolver(context):
        enter("resolver")
        return f"refund of {context['amount']} for {context['ticket_id']}"

    return Pipeline(relay, [Step("triage", triage, ["ticket_id"]), Step("resolver", resolver, ["amount"])])
"""
DYING = (
    STEPS
    + """
import sys
from agent_handoff_kit import Relay
pipeline(Relay(sys.argv[1]), sys.argv[3]).run(sys.argv[2], Ticket(f"T-{sys.argv[2]}"))
"""
)
made: dict[str, Any] = {}
exec(STEPS, made)

faces = pytest.mark.parametrize("later", [False, True], ids=["blocking", "awaitable"])


def die(path: str, run_id: str, step: str) -> None:
    process = subprocess.run([sys.executable, "-c", DYING, path, run_id, step], check=False)
    assert process.returncode == -signal.SIGKILL


def resume(relay: Relay, run_id: str, later: bool) -> Any:
    pipeline: Pipeline = made["pipeline"](relay)
    return asyncio.run(pipeline.aresume(run_id)) if later else pipeline.resume(run_id)


def recover(relay: Relay, later: bool, **options: Any) -> list[tuple[str, Any]]:
    def build(run_id: str) -> Pipeline:
        if run_id == "gone":
            return Pipeline(relay, [Step("another", dict)])
        pipeline: Pipeline = made["pipeline"](relay)
        return pipeline

    if later:
        return asyncio.run(Pipeline.arecover_orphans(relay, build, **options))
    return Pipeline.recover_orphans(relay, build, **options)


@faces
@pytest.mark.parametrize("step", ["triage", "resolver"])
def test_a_run_whose_process_was_killed_goes_on_without_its_input(
    relay: Relay, path: str, step: str, later: bool
) -> None:
    die(path, "1", step)
    assert resume(relay, "1", later) == "refund of 500 for T-1"
    assert resume(relay, "1", later) == "refund of 500 for T-1"


@faces
def test_a_run_that_was_never_started_has_nothing_to_resume(relay: Relay, later: bool) -> None:
    with pytest.raises(NothingToResume, match="'1'"):
        resume(relay, "1", later)
    assert relay.run_status("1") != "completed"


def test_a_damaged_input_is_reported(relay: Relay, path: str) -> None:
    die(path, "1", "triage")
    connection = sqlite3.connect(path)
    with connection:
        (kept,) = connection.execute("SELECT input FROM run").fetchone()
        connection.execute("UPDATE run SET input = ?", (kept.replace(b"T-1", b"T-2"),))
    connection.close()
    with pytest.raises(StoreDamaged, match="input of run '1'"):
        resume(relay, "1", later=False)


@faces
def test_orphans_are_taken_over_and_each_outcome_is_told(relay: Relay, path: str, later: bool) -> None:
    for run_id in ("1", "gone", "3"):
        die(path, run_id, "resolver")
    found = dict(recover(relay, later))
    assert isinstance(found.pop("gone"), UnknownAgent)
    assert found == {"1": "refund of 500 for T-1", "3": "refund of 500 for T-3"}
    assert relay.run_status("gone") == "open"


@faces
def test_no_more_orphans_are_taken_than_asked_for_and_none_after_the_stop(relay: Relay, path: str, later: bool) -> None:
    for run_id in ("1", "2"):
        die(path, run_id, "resolver")
    stop = threading.Event()
    stop.set()
    assert recover(relay, later, stop=stop) == []
    assert len(recover(relay, later, limit=1)) == 1
    assert len(recover(relay, later, stop=threading.Event())) == 1
    assert recover(relay, later) == []
