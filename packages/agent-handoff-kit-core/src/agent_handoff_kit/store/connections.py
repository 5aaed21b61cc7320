"""Opening an SQLite file the one way that keeps the promises."""

from __future__ import annotations

import contextlib
import os
import sqlite3

from agent_handoff_kit.errors import StoreError, StoreUnavailable
from agent_handoff_kit.store.migrations import judge, migrate

MEMORY = ":memory:"
_SYNCHRONOUS = {"full": "FULL", "os": "NORMAL"}


def create_private(path: str) -> None:
    """Create the file with mode 0600 before SQLite does; SQLite gives its side files the same mode.

    An existing file is never opened here: closing it would drop this process's locks on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def open_writer(path: str, durability: str) -> sqlite3.Connection:
    """A connection for writing, its schema current. The caller holds the side lock."""
    connection = _connect(path)
    try:
        # Before anything is changed: another program's file stays as it is.
        found = judge(connection, path)
        if path != MEMORY:
            _enter_wal(connection, path)
        for pragma in (
            f"synchronous={_SYNCHRONOUS[durability]}",
            "wal_autocheckpoint=0",
            "fullfsync=1",
            "checkpoint_fullfsync=1",
            "secure_delete=ON",
            "trusted_schema=OFF",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        migrate(connection, path, found)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: str) -> sqlite3.Connection:
    """A connection that only reads."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only=ON").fetchall()
    return connection


def _connect(path: str) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < (3, 24):
        raise StoreUnavailable(path, "open", f"SQLite {sqlite3.sqlite_version} is older than 3.24")
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)


def _enter_wal(connection: sqlite3.Connection, path: str) -> None:
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(path, "open", f"the journal mode stays {mode!r} where WAL is needed")
