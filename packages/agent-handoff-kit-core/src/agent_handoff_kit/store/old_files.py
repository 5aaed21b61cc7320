"""The import of what 0.1.0 wrote: its three tables, or those of them that a file has."""

from __future__ import annotations

import sqlite3
import sys
from typing import Any

from agent_handoff_kit.models import Checkpoint
from agent_handoff_kit.serialization import digest, encode, loads_field
from agent_handoff_kit.store.payloads import Codec, drafted
from agent_handoff_kit.store.records import Draft, LogHead
from agent_handoff_kit.store.statements import insert_checkpoint

_COLUMNS = {
    "checkpoints": "checkpoint_id run_id from_agent to_agent context required_keys created_at status error",
    "run_meta": "run_id status updated_at",
    "tool_invocations": "run_id idempotency_key tool_name result_json created_at",
}
OLD_TABLES = tuple(_COLUMNS)

# What 0.1.0 could write is taken over whatever its size.
_CODEC = Codec(max_bytes=sys.maxsize)
# Views under the old names: a 0.1.0 process that still runs is refused instead of writing beside us.
_VIEWS = tuple(
    f"CREATE VIEW IF NOT EXISTS {name} AS SELECT 'migrated by agent-handoff-kit 0.2.0' AS notice" for name in OLD_TABLES
)


def is_old(connection: sqlite3.Connection, tables: set[str]) -> bool:
    """Whether 0.1.0 wrote the file: it has tables of these names, and each has the columns of 0.1.0."""
    found = [name for name in OLD_TABLES if name in tables]
    return bool(found) and all(set(_COLUMNS[name].split()) <= _columns(connection, name) for name in found)


def import_old(connection: sqlite3.Connection, tables: set[str]) -> None:
    """Take over the old tables into the new ones, in the open transaction, and put views in their place."""
    for name, take_over in (
        ("checkpoints", _import_checkpoints),
        ("run_meta", _import_runs),
        ("tool_invocations", _import_calls),
    ):
        if name in tables:
            take_over(connection)
            connection.execute(f"DROP TABLE {name}")
    for statement in _VIEWS:
        connection.execute(statement)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})").fetchall()}


def _import_checkpoints(connection: sqlite3.Connection) -> None:
    columns = ", ".join(_COLUMNS["checkpoints"].split())
    last: dict[str, int] = {}
    heads: dict[str, LogHead] = {}
    # One row at a time: a history may be larger than the memory.
    for (number,) in connection.execute("SELECT rowid FROM checkpoints ORDER BY rowid").fetchall():
        (row,) = connection.execute(f"SELECT {columns} FROM checkpoints WHERE rowid = ?", (number,)).fetchall()
        draft = _draft(row, heads.get(row[1]))
        seq = last[draft.run_id] = last.get(draft.run_id, 0) + 1
        insert = draft.at(seq)
        insert_checkpoint(connection, insert)
        if insert.log_seq is not None:
            heads[draft.run_id] = LogHead(insert.log_seq, draft.log_len, draft.log_digest)
    for run_id, seq in last.items():
        connection.execute(
            "INSERT INTO run (run_id, status, last_seq, updated_at) VALUES (?, 'open', ?, 0)", (run_id, seq)
        )


def _draft(row: tuple[Any, ...], head: LogHead | None) -> Draft:
    op_id, run_id, sender, receiver, context, keys, created_at, status, error = row
    checkpoint = Checkpoint(run_id, sender, receiver, {}, [], checkpoint_id=op_id)
    try:
        checkpoint.context = loads_field(context, "context")
        draft, _ = drafted(checkpoint, _CODEC, head, None)
    except (ValueError, TypeError, RecursionError):
        # A damaged old value is carried over as it is; reading it reports the damage.
        checkpoint.context = {}
        draft, _ = drafted(checkpoint, _CODEC, None, None, state=_bytes(context))
    terms = b'{"required_keys":' + _rewritten(keys, "required_keys") + b"}"
    return draft._replace(terms=terms, status=status, error=error, created_at=created_at)


def _rewritten(raw: Any, name: str) -> bytes:
    try:
        return encode(loads_field(raw, name), max_bytes=sys.maxsize)
    except (ValueError, TypeError, RecursionError):
        return _bytes(raw)


def _bytes(raw: Any) -> bytes:
    return raw if isinstance(raw, bytes) else str(raw).encode("utf-8", "surrogatepass")


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
