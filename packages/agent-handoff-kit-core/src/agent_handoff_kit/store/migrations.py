"""The schema and its numbered migrations, forward only. Takes over a 0.1.0 file; refuses others."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sqlite3
from enum import Enum

from agent_handoff_kit.errors import SchemaMismatch
from agent_handoff_kit.store.old_files import OLD_TABLES, import_old, is_old

VERSION = 1
APPLICATION_ID = 0x41484B31

_SCHEMA = (
    "CREATE TABLE run (run_id TEXT PRIMARY KEY, status TEXT NOT NULL, last_seq INTEGER NOT NULL DEFAULT 0,"
    " owner TEXT, host TEXT, pid INTEGER, token INTEGER NOT NULL DEFAULT 0, boot_id TEXT, lease_until REAL,"
    " claims INTEGER NOT NULL DEFAULT 0, input BLOB, input_digest BLOB, result BLOB, result_digest BLOB,"
    " updated_at REAL NOT NULL)",
    # Holds leased runs only, and no column that a heartbeat or a handoff changes.
    "CREATE INDEX run_leased ON run (run_id) WHERE owner IS NOT NULL",
    # The messages come before the state: reading a log does not walk over each row's state.
    "CREATE TABLE checkpoint (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, seq INTEGER NOT NULL,"
    " op_id TEXT NOT NULL, status TEXT NOT NULL, from_agent TEXT NOT NULL, to_agent TEXT NOT NULL,"
    " envelope INTEGER NOT NULL, log_seq INTEGER, log_len INTEGER NOT NULL, log_digest BLOB NOT NULL,"
    " messages BLOB NOT NULL, segment INTEGER, state BLOB NOT NULL CHECK (typeof(state) = 'blob'), terms BLOB NOT NULL,"
    " digest BLOB NOT NULL, error TEXT, created_at REAL NOT NULL,"
    " UNIQUE (run_id, seq), UNIQUE (op_id, run_id))",
    # Messages too large for the checkpoint's row; a row of its own packs the pages better.
    "CREATE TABLE segment (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    # A global call has an empty run id. Without a digest of arguments, any arguments fit.
    "CREATE TABLE call (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, key TEXT NOT NULL, tool TEXT NOT NULL,"
    " args_digest BLOB, status TEXT NOT NULL, attempt INTEGER NOT NULL, owner TEXT, boot_id TEXT, lease_until REAL,"
    " result BLOB, digest BLOB, error TEXT, created_at REAL NOT NULL, finished_at REAL,"
    " UNIQUE (run_id, key, tool))",
    # What happened after a checkpoint: epoch is its sequence, 0 before the first one.
    "CREATE TABLE journal (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, epoch INTEGER NOT NULL, key TEXT NOT NULL,"
    " data BLOB NOT NULL, digest BLOB NOT NULL, UNIQUE (run_id, epoch, key))",
)

_OWN_NAMES: frozenset[str] = frozenset(re.findall(r"CREATE (?:TABLE|INDEX) (\w+)", "\n".join(_SCHEMA)))


class Found(Enum):
    """What a file is before anything is done to it."""

    CURRENT = "current"
    EMPTY = "empty"
    OLD = "old"


def judge(connection: sqlite3.Connection, location: str) -> Found:
    """What the file is; changes nothing in it.

    Raises:
        SchemaMismatch: it was written by a newer version, or by another program.
    """
    version, application = (_number(connection, name) for name in ("user_version", "application_id"))
    if application == APPLICATION_ID and version == VERSION:
        return Found.CURRENT
    if application == APPLICATION_ID:
        raise SchemaMismatch(location, version, VERSION)
    objects = _objects(connection)
    tables = {name for name, kind in objects if kind == "table"}
    if (version, application) == (0, 0) and not objects:
        return Found.EMPTY
    if (version, application) != (0, 0) or not is_old(connection, tables):
        raise SchemaMismatch(location, _described(version, application, tables), VERSION)
    _require_room(location, {name.lower() for name, _ in objects})
    return Found.OLD


def migrate(connection: sqlite3.Connection, location: str, found: Found) -> None:
    """Bring the file to this version, in one transaction; a 0.1.0 file is copied first."""
    if found is Found.CURRENT:
        return
    if found is Found.OLD:
        back_up(connection, f"{location}.0.1.0.bak")
    connection.execute("BEGIN IMMEDIATE")
    try:
        _create(connection, old=found is Found.OLD)
        connection.execute("COMMIT")
    except BaseException:
        # A full disk has rolled the transaction back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def back_up(connection: sqlite3.Connection, target: str) -> None:
    """Copy the database through SQLite's own backup; beside a copy that exists already, under a number."""
    # Under its own name only when it is whole: a crash leaves no half a copy that looks like one.
    unfinished = f"{target}.unfinished"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    copy = sqlite3.connect(unfinished)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    os.replace(unfinished, _free_name(target))


def _free_name(target: str) -> str:
    # What stands under the name may be the copy of another file that was here before.
    names = itertools.chain([target], (f"{target}.{number}" for number in itertools.count(2)))
    return next(name for name in names if not os.path.lexists(name))


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _objects(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    return [(str(name), str(kind)) for name, kind in rows]


def _described(version: int, application: int, tables: set[str]) -> str:
    return f"{version} of another program (application id {application}, tables {sorted(tables)})"


def _require_room(location: str, names: set[str]) -> None:
    taken = sorted(names & _OWN_NAMES)
    if taken:
        found = f"that of 0.1.0 beside {taken} of another program, names that this release needs itself"
        raise SchemaMismatch(location, f"{found}; move {', '.join(OLD_TABLES)} to a file of their own", VERSION)


def _create(connection: sqlite3.Connection, *, old: bool) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    if old:
        import_old(connection, {name for name, kind in _objects(connection) if kind == "table"})
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
