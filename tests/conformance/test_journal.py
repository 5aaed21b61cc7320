"""The journal: what happened in a run since its last checkpoint."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import LostOwnership, StoreDamaged
from agent_handoff_kit.journal import WHOLE_RUN, Journal


def test_records_come_back_in_the_order_of_writing_with_their_types(tmp_path: Path) -> None:
    async def story() -> None:
        with Relay(tmp_path / "run.db") as relay:
            async with relay.arun("r") as run:
                await Journal(run).put(0, {"b": {"amount": Decimal("1.50")}})
                await Journal(run).put(0, {"a": [1, True, None], "c": "text"})
        with Relay(tmp_path / "run.db") as again:
            async with again.arun("r") as run:
                found = await Journal(run).load(0)
        assert list(found.items()) == [("b", {"amount": Decimal("1.50")}), ("a", [1, True, None]), ("c", "text")]

    asyncio.run(story())


def test_epochs_and_runs_are_apart(tmp_path: Path) -> None:
    async def story() -> None:
        with Relay(tmp_path / "run.db") as relay:
            for run_id in ("r", "s"):
                async with relay.arun(run_id) as run:
                    await Journal(run).put(0, {"key": f"{run_id}0"})
                    await Journal(run).put(WHOLE_RUN, {"key": f"{run_id}-whole"})
            async with relay.arun("r") as run:
                journal = Journal(run)
                assert [await journal.load(epoch) for epoch in (0, 1, WHOLE_RUN)] == [
                    {"key": "r0"},
                    {},
                    {"key": "r-whole"},
                ]

    asyncio.run(story())


def test_a_record_takes_the_place_of_one_with_its_key(tmp_path: Path) -> None:
    async def story() -> None:
        with Relay(tmp_path / "run.db") as relay:
            async with relay.arun("r") as run:
                await Journal(run).put(3, {"key": "one"})
                await Journal(run).put(3, {"key": "two"})
                assert await Journal(run).load(3) == {"key": "two"}

    asyncio.run(story())


def test_an_owner_that_lost_its_run_records_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        with Relay(tmp_path / "run.db") as relay:
            async with relay.arun("r") as run:
                stale = Journal(run)
            async with relay.arun("r") as run:
                with pytest.raises(LostOwnership):
                    await stale.put(0, {"key": "stale"})
                assert await Journal(run).load(0) == {}

    asyncio.run(story())


def test_a_damaged_record_is_reported(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "run.db"
        with Relay(path) as relay:
            async with relay.arun("r") as run:
                await Journal(run).put(0, {"key": "paid"})
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE journal SET data = ?", (b'"free"',))
        with Relay(path) as relay:
            async with relay.arun("r") as run:
                with pytest.raises(StoreDamaged, match="journal record 'key' of run 'r'"):
                    await Journal(run).load(0)

    asyncio.run(story())


def test_a_finished_run_that_is_pruned_keeps_no_records(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "run.db"
        with Relay(path) as relay:
            async with relay.arun("r") as run:
                await relay.ahandoff("r", "a", "b", {"k": 1})
                await Journal(run).put(1, {"key": "paid"})
                await relay.acomplete("r", "done")
            assert relay.prune_completed() == 1
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM journal").fetchall() == [(0,)]

    asyncio.run(story())
