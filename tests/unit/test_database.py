"""An interrupt while a connection is left behind loses neither the connection nor its locks."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_handoff_kit.store.database import Database


class Interrupted(sqlite3.Connection):
    """A connection whose closing is interrupted, before it or after it."""

    moments: tuple[str, ...] = ()

    def close(self) -> None:
        moments, Interrupted.moments = Interrupted.moments, ()
        if "before" in moments:
            raise KeyboardInterrupt
        super().close()
        if "after" in moments:
            raise KeyboardInterrupt


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Interrupted))
    return Database(str(tmp_path / "run.db"), "full")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("leave", [Database.leave_writer, Database.leave_reader])
def test_an_interrupt_while_a_connection_is_closed_leaves_no_transaction_open(
    database: Database, moment: str, leave: Callable[[Database, BaseException], None]
) -> None:
    assert database.try_lock()
    database.writer().execute("BEGIN IMMEDIATE")
    database.reader().execute("BEGIN")
    Interrupted.moments = (moment,)
    # What is caught holds the frames, and with them what is nowhere else.
    with pytest.raises(KeyboardInterrupt) as caught:
        leave(database, KeyboardInterrupt())
    assert database.try_lock()
    writer, reader = database.idle_writer(), database.idle_reader()
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("CREATE TABLE written (n)")
    writer.execute("COMMIT")
    assert reader.execute("SELECT n FROM written").fetchall() == []
    assert caught.value is not None
    database.close()
