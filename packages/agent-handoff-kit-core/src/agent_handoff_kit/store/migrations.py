"""The schema and its numbered migrations, forward only. Imports a 0.1.0 file; refuses a newer one."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Any

from agent_handoff_kit.errors import SchemaMismatch
from agent_handoff_kit.serialization import digest, encode, loads_field
from agent_handoff_kit.store.records import EMPTY_CHAIN, row_digest

VERSION = 1
APPLICATION_ID = 0x41484B31
_OLD_TABLES = ("checkpoints", "run_meta", "tool_invocations")

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

# Views under the old names: a 0.1.0 process that still runs is refused instead of writing beside us.
_VIEWS = tuple(f"CREATE VIEW {name} AS SELECT 'migrated by agent-handoff-kit 0.2.0' AS notice" for name in _OLD_TABLES)


def migrate(connection: sqlite3.Connection, location: str) -> None:
    """Bring the file to this version, in one transaction; a 0.1.0 file is copied first.

    Raises:
        SchemaMismatch: the file was written by a newer version, or by another program.
    """
    found = _version(connection)
    if found == VERSION:
        return
    tables = _tables(connection)
    if found > VERSION:
        raise SchemaMismatch(location, str(found), str(VERSION))
    if found == 0 and tables and "checkpoints" not in tables:
        raise SchemaMismatch(location, f"tables {sorted(tables)} of another program", str(VERSION))
    old = "checkpoints" in tables
    if old:
        back_up(connection, f"{location}.0.1.0.bak")
    connection.execute("BEGIN IMMEDIATE")
    try:
        _create(connection, old=old)
        connection.execute("COMMIT")
    except BaseException:
        # A full disk has rolled the transaction back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def back_up(connection: sqlite3.Connection, target: str) -> None:
    """Copy the database through SQLite's own backup; a whole copy that exists already stays."""
    if os.path.exists(target):
        return
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
    os.replace(unfinished, target)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {str(row[0]) for row in rows.fetchall()}


def _create(connection: sqlite3.Connection, *, old: bool) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    if old:
        _import_checkpoints(connection)
        _import_runs(connection)
        _import_calls(connection)
        for name in _OLD_TABLES:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in _VIEWS:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _rewritten(raw: str, name: str) -> bytes:
    # A damaged old value is carried over as it is; reading it reports the damage.
    try:
        return encode(loads_field(raw, name))
    except ValueError:
        return raw.encode("utf-8", "surrogatepass")


def _import_checkpoints(connection: sqlite3.Connection) -> None:
    rows = connection.execute(
        "SELECT checkpoint_id, run_id, from_agent, to_agent, context, required_keys, created_at, status, error"
        " FROM checkpoints ORDER BY rowid"
    ).fetchall()
    last: dict[str, int] = {}
    for row in rows:
        last[row[1]] = last.get(row[1], 0) + 1
        _import_checkpoint(connection, row, last[row[1]])
    for run_id, seq in last.items():
        connection.execute(
            "INSERT INTO run (run_id, status, last_seq, updated_at) VALUES (?, 'open', ?, 0)", (run_id, seq)
        )


def _import_checkpoint(connection: sqlite3.Connection, row: tuple[Any, ...], seq: int) -> None:
    op_id, run_id, sender, receiver, context, keys, created_at, status, error = row
    state = _rewritten(context, "context")
    terms = b'{"required_keys":' + _rewritten(keys, "required_keys") + b"}"
    mark = row_digest(run_id, op_id, state, terms, EMPTY_CHAIN, 0)
    connection.execute(
        "INSERT INTO checkpoint (run_id, seq, op_id, status, from_agent, to_agent, envelope, log_len, log_digest,"
        " messages, state, terms, digest, error, created_at) VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, x'', ?, ?, ?, ?, ?)",
        (run_id, seq, op_id, status, sender, receiver, EMPTY_CHAIN, state, terms, mark, error, created_at),
    )


def _import_runs(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO run (run_id, status, updated_at) SELECT run_id, status, updated_at FROM run_meta WHERE true"
        " ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, updated_at = excluded.updated_at"
    )


def _import_calls(connection: sqlite3.Connection) -> None:
    rows = connection.execute(
        "SELECT run_id, idempotency_key, tool_name, result_json, created_at FROM tool_invocations"
    ).fetchall()
    for run_id, key, tool, raw, created_at in rows:
        result = _rewritten(raw, "result_json")
        connection.execute(
            "INSERT INTO call (run_id, key, tool, status, attempt, result, digest, created_at, finished_at)"
            " VALUES (?, ?, ?, 'completed', 1, ?, ?, ?, ?)",
            (run_id, key, tool, result, digest(run_id, key, "call", result), created_at, created_at),
        )
