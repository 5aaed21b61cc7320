"""Order is the order of writing, whatever the clocks say."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Checkpoint, HandoffStatus, Relay

WRITTEN_BY_0_1_0 = Path(__file__).parents[1] / "data" / "written_by_0_1_0.sqlite"
CLOCKS = (2000.0, 1000.0, 1500.0)


def write_with_clocks(relay: Relay) -> None:
    for step, clock in enumerate(CLOCKS, 1):
        relay.store.save(Checkpoint("r", "a", "b", {"step": step}, ["step"], created_at=clock))
        relay.verify(relay.history("r")[-1])


def test_after_a_step_back_of_the_clock_the_newest_is_the_last_written(face: Any, path: str) -> None:
    write_with_clocks(face.relay)
    with Relay(path) as later:
        newest = later.store.last_good_checkpoint("r")
    assert newest is not None and newest.context == {"step": 3}
    assert face.recover("r").context == {"step": 3}
    assert [(one.context["step"], one.created_at) for one in face.history("r")] == list(enumerate(CLOCKS, 1))
    assert [one.context["step"] for one in face.history("r", limit=2)] == [2, 3]


def test_completing_after_a_step_back_of_the_clock_marks_the_last_written(face: Any) -> None:
    write_with_clocks(face.relay)
    face.complete("r", "done")
    verified, recovered = HandoffStatus.VERIFIED, HandoffStatus.RECOVERED
    assert [one.status for one in face.history("r")] == [verified, verified, recovered]


def test_processes_whose_clocks_disagree_write_in_turn(face: Any, path: str) -> None:
    code = (
        "import sys, time\n"
        "time.time = lambda: float(sys.argv[2])\n"
        "from agent_handoff_kit import Relay\n"
        "with Relay(sys.argv[1]) as relay:\n"
        "    relay.handoff('r', 'a', 'b', {'clock': sys.argv[2]})\n"
    )
    for clock in CLOCKS:
        subprocess.run([sys.executable, "-c", code, path, str(clock)], check=True)
    assert [one.context["clock"] for one in face.history("r")] == [str(clock) for clock in CLOCKS]
    assert face.recover("r").context == {"clock": str(CLOCKS[-1])}


@pytest.mark.parametrize("column", ["created_at", "updated_at"])
def test_times_that_are_changed_in_the_file_change_no_order(face: Any, path: str, column: str) -> None:
    for step in (1, 2, 3):
        face.handoff("r", "a", "b", {"step": step})
    table, value = ("checkpoint", "-seq") if column == "created_at" else ("run", "-1")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(f"UPDATE {table} SET {column} = {value}")
    connection.close()
    assert face.recover("r").context == {"step": 3}
    assert face.handoff("r", "a", "b", {"step": 4}).seq == 4
    assert [one.context["step"] for one in face.history("r")] == [1, 2, 3, 4]


def test_a_file_of_0_1_0_keeps_its_order_of_writing_after_a_step_back_of_the_clock(path: str) -> None:
    shutil.copy(WRITTEN_BY_0_1_0, path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM checkpoints")
        for step, clock in enumerate(CLOCKS, 1):
            row = (f"c{step}", f'{{"step": {step}}}', clock)
            connection.execute(
                "INSERT INTO checkpoints VALUES (?, 'old', 'a', 'b', ?, '[\"step\"]', ?, 'VERIFIED', NULL)", row
            )
    connection.close()
    with Relay(path) as relay:
        assert [one.context["step"] for one in relay.history("old")] == [1, 2, 3]
        found = relay.recover("old")
        assert found is not None and found.context == {"step": 3}
