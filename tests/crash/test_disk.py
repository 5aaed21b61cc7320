"""A failing disk and a lost power supply: nothing acknowledged is lost, nothing is applied twice."""

from __future__ import annotations

import ast
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_handoff_kit import Relay
from tests.support import disk
from tests.support.power_loss import images

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the shim needs Linux")

CLEAR_ERRORS = {"StoreFull", "StoreUnavailable", "CallInDoubt", "None"}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return disk.build(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def scratch() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def test_each_write_and_sync_may_fail_once_or_for_good(shim: Path, scratch: Path) -> None:
    rows = [line.split("|") for line in disk.run(shim, "tests.support.failing_disk", scratch).splitlines()]
    assert len(rows) == 8
    for kind, lasting, count, became, said in rows:
        print(kind, lasting, count, became, said)
        assert int(count) >= 15
        ends, errors = Counter(ast.literal_eval(became)), Counter(ast.literal_eval(said))
        assert ends["doubled"] == 0
        assert sum(ends.values()) == int(count)
        assert set(errors) <= CLEAR_ERRORS
        assert set(errors) != {"None"}


def losses(shim: Path, scratch: Path, mode: str) -> Counter[str]:
    """Lose the power at every event of a run; what was found on the disk each time."""
    database, log = scratch / "run.db", scratch / "log"
    disk.run(shim, "tests.support.logged_handoffs", database, log, mode)
    start = {str(scratch / file.name): file.read_bytes() for file in (scratch / "start").iterdir()}
    found: Counter[str] = Counter()
    for number, marks, model, files in images(log, start, seed=7):
        folder = scratch / f"{number}-{model}"
        folder.mkdir()
        for path, content in files.items():
            (folder / os.path.basename(path)).write_bytes(content)
        found[verdict(folder / "run.db", marks)] += 1
        shutil.rmtree(folder)
    return found


def verdict(database: Path, marks: list[str]) -> str:
    """``whole``, or what is wrong with the store against what was acknowledged."""
    handoffs = sum(mark.startswith("handoff") for mark in marks)
    calls = sum(mark.startswith("call") for mark in marks)
    try:
        with Relay(database) as relay:
            numbers = [one.context["state"]["n"] for one in relay.history("r")]
            results = [relay.store.get_tool_result("r", f"call-{number}") for number in range(calls)]
        connection = sqlite3.connect(database)
        sound = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
    except Exception as error:
        return f"damaged: {type(error).__name__}"
    if not sound:
        return "damaged: integrity"
    if numbers[:handoffs] != list(range(handoffs)) or results != list(range(calls)):
        return "acknowledged and lost"
    return "whole"


def test_a_power_loss_at_any_moment_loses_nothing_acknowledged(shim: Path, scratch: Path) -> None:
    found = losses(shim, scratch, "WAL")
    print(dict(found))
    assert set(found) == {"whole"}
    assert found["whole"] >= 300


def test_the_simulation_sees_what_a_rollback_journal_loses(shim: Path, scratch: Path) -> None:
    found = losses(shim, scratch, "DELETE")
    print(dict(found))
    assert found["acknowledged and lost"] > 0
