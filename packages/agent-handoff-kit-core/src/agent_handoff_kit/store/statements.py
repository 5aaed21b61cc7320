"""Steps as SQLite statements. No step needs more than SQLite 3.24."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from agent_handoff_kit.store import call_statements, lease_statements, steps
from agent_handoff_kit.store.session import Session

Rows = list[tuple[Any, ...]]

_INLINE_BYTES = 1024
_COLUMNS = (
    "run_id, seq, op_id, status, from_agent, to_agent, envelope, log_seq, log_len, log_digest,"
    " state, terms, digest, error, created_at"
)
_INSERT = f"INSERT INTO checkpoint ({_COLUMNS}, messages, segment) VALUES ({', '.join('?' * 17)})"


def execute(session: Session, step: steps.Step) -> Rows:
    """Run one step and return all its rows."""
    plain = _TABLE.get(type(step))
    if plain is not None:
        return plain(session.connection, step)
    owned = lease_statements.TABLE.get(type(step)) or call_statements.TABLE[type(step)]
    return owned(session, step)


def _all(connection: sqlite3.Connection, sql: str, *values: object) -> Rows:
    return connection.execute(sql, values).fetchall()


def _find_operation(connection: sqlite3.Connection, step: steps.FindOperation) -> Rows:
    return _all(
        connection, f"SELECT {_COLUMNS} FROM checkpoint WHERE op_id = ? AND run_id = ?", step.op_id, step.run_id
    )


def _newest_log(connection: sqlite3.Connection, step: steps.NewestLog) -> Rows:
    return _all(
        connection,
        "SELECT log_seq, log_len, log_digest FROM checkpoint WHERE run_id = ? AND log_seq IS NOT NULL"
        " AND status <> 'FAILED' ORDER BY seq DESC LIMIT 1",
        step.run_id,
    )


def insert_checkpoint(connection: sqlite3.Connection, step: steps.InsertCheckpoint) -> Rows:
    """Insert a checkpoint with its messages; no rows."""
    *values, own = step
    connection.execute(_INSERT, (*values, *_placed(connection, own)))
    return []


def _placed(connection: sqlite3.Connection, messages: bytes) -> tuple[bytes, int | None]:
    """Messages in the checkpoint's own row, or in a segment that it names."""
    if len(messages) <= _INLINE_BYTES:
        return messages, None
    return b"", connection.execute("INSERT INTO segment (data) VALUES (?)", (messages,)).lastrowid


def _delete_checkpoint(connection: sqlite3.Connection, step: steps.DeleteCheckpoint) -> Rows:
    _delete_segments(connection, "run_id = ? AND seq = ?", step.run_id, step.seq)
    return _all(connection, "DELETE FROM checkpoint WHERE run_id = ? AND seq = ?", step.run_id, step.seq)


def _delete_segments(connection: sqlite3.Connection, condition: str, *values: object) -> None:
    connection.execute(f"DELETE FROM segment WHERE id IN (SELECT segment FROM checkpoint WHERE {condition})", values)


def _replace_messages(connection: sqlite3.Connection, step: steps.ReplaceMessages) -> Rows:
    _delete_segments(connection, "run_id = ? AND seq = ?", step.run_id, step.seq)
    messages, segment = _placed(connection, step.messages)
    return _all(
        connection,
        "UPDATE checkpoint SET messages = ?, segment = ? WHERE run_id = ? AND seq = ?",
        messages,
        segment,
        step.run_id,
        step.seq,
    )


def _delete_run_data(connection: sqlite3.Connection, step: steps.DeleteRunData) -> Rows:
    _delete_segments(connection, "run_id = ?", step.run_id)
    for table in ("checkpoint", "call", "journal"):
        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (step.run_id,))
    return []


def _finished_runs(connection: sqlite3.Connection, step: steps.FinishedRuns) -> Rows:
    return _all(
        connection,
        "SELECT run_id FROM run WHERE status = 'completed' AND updated_at < ?"
        " AND (EXISTS (SELECT 1 FROM checkpoint WHERE checkpoint.run_id = run.run_id)"
        " OR EXISTS (SELECT 1 FROM call WHERE call.run_id = run.run_id)) LIMIT ?",
        step.before,
        step.limit,
    )


def _list_checkpoints(connection: sqlite3.Connection, step: steps.ListCheckpoints) -> Rows:
    return _all(
        connection, "SELECT seq, status, log_seq, log_len FROM checkpoint WHERE run_id = ? ORDER BY seq", step.run_id
    )


def _load_newest(connection: sqlite3.Connection, step: steps.LoadNewest) -> Rows:
    marks = ", ".join("?" * len(step.statuses))
    return _all(
        connection,
        f"SELECT {_COLUMNS} FROM checkpoint WHERE run_id = ? AND seq < ? AND status IN ({marks})"
        " ORDER BY seq DESC LIMIT 1",
        step.run_id,
        step.below,
        *step.statuses,
    )


def _load_history(connection: sqlite3.Connection, step: steps.LoadHistory) -> Rows:
    return _all(
        connection,
        f"SELECT {_COLUMNS} FROM checkpoint WHERE run_id = ? ORDER BY seq DESC LIMIT ?",
        step.run_id,
        step.limit,
    )


def _load_segments(connection: sqlite3.Connection, step: steps.LoadSegments) -> Rows:
    return _all(
        connection,
        "SELECT seq, log_len, coalesce(segment.data, messages) FROM checkpoint"
        " LEFT JOIN segment ON segment.id = segment"
        " WHERE run_id = ? AND seq BETWEEN ? AND ? AND log_seq = ? ORDER BY seq",
        step.run_id,
        step.log_seq,
        step.seq,
        step.log_seq,
    )


def _transition(connection: sqlite3.Connection, step: steps.Transition) -> Rows:
    this = (step.checkpoint_id, step.run_id)
    before = _all(connection, "SELECT status FROM checkpoint WHERE op_id = ? AND run_id = ?", *this)
    marks = ", ".join("?" * len(step.expected))
    connection.execute(
        f"UPDATE checkpoint SET status = ?, error = ? WHERE op_id = ? AND run_id = ? AND status IN ({marks})",
        (step.status, step.error, *this, *step.expected),
    )
    return before


def _replace_checkpoint(connection: sqlite3.Connection, step: steps.ReplaceCheckpoint) -> Rows:
    run_id, seq, *content = step
    return _all(
        connection,
        "UPDATE checkpoint SET status = ?, from_agent = ?, to_agent = ?, state = ?, terms = ?, digest = ?, error = ?,"
        " created_at = ? WHERE run_id = ? AND seq = ?",
        *content,
        run_id,
        seq,
    )


def _find_runs(connection: sqlite3.Connection, step: steps.FindRuns) -> Rows:
    return _all(connection, "SELECT run_id FROM checkpoint WHERE op_id = ? ORDER BY run_id", step.checkpoint_id)


def _statuses_above(connection: sqlite3.Connection, step: steps.StatusesAbove) -> Rows:
    return _all(
        connection,
        "SELECT seq, status FROM checkpoint WHERE run_id = ? AND seq > ? ORDER BY seq DESC",
        step.run_id,
        step.seq,
    )


def _prune_journal(connection: sqlite3.Connection, step: steps.PruneJournal) -> Rows:
    return _all(
        connection, "DELETE FROM journal WHERE run_id = ? AND epoch BETWEEN 0 AND ?", step.run_id, step.before - 1
    )


def _recover_newest(connection: sqlite3.Connection, step: steps.RecoverNewest) -> Rows:
    return _all(
        connection,
        "UPDATE checkpoint SET status = 'RECOVERED' WHERE run_id = ? AND status = 'VERIFIED' AND seq ="
        " (SELECT max(seq) FROM checkpoint WHERE run_id = ? AND status IN ('VERIFIED', 'RECOVERED'))",
        step.run_id,
        step.run_id,
    )


def _read_run(connection: sqlite3.Connection, step: steps.ReadRun) -> Rows:
    return _all(
        connection,
        "SELECT status, result, result_digest, input, input_digest, last_seq FROM run WHERE run_id = ?",
        step.run_id,
    )


def _write_run(connection: sqlite3.Connection, step: steps.WriteRun) -> Rows:
    return _all(
        connection,
        "INSERT INTO run (run_id, status, result, result_digest, updated_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, updated_at = excluded.updated_at,"
        " result = coalesce(excluded.result, result), result_digest = coalesce(excluded.result_digest, result_digest)",
        step.run_id,
        step.status,
        step.result,
        step.result_digest,
        step.now,
    )


def _insert_call(connection: sqlite3.Connection, step: steps.InsertCall) -> Rows:
    return _all(
        connection,
        "INSERT INTO call (run_id, key, tool, status, attempt, result, digest, created_at, finished_at)"
        " VALUES (?, ?, ?, 'completed', 1, ?, ?, ?, ?)"
        " ON CONFLICT (run_id, key, tool) DO NOTHING",
        step.run_id,
        step.key,
        step.tool,
        step.result,
        step.digest,
        step.now,
        step.now,
    )


def _put_record(connection: sqlite3.Connection, step: steps.PutRecord) -> Rows:
    return _all(
        connection,
        "INSERT INTO journal (run_id, epoch, key, data, digest) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (run_id, epoch, key) DO UPDATE SET data = excluded.data, digest = excluded.digest",
        *step,
    )


def _load_records(connection: sqlite3.Connection, step: steps.LoadRecords) -> Rows:
    return _all(
        connection,
        "SELECT key, data, digest FROM journal WHERE run_id = ? AND epoch = ? ORDER BY id",
        step.run_id,
        step.epoch,
    )


_TABLE: dict[type[Any], Callable[[sqlite3.Connection, Any], Rows]] = {
    steps.FindOperation: _find_operation,
    steps.NewestLog: _newest_log,
    steps.InsertCheckpoint: insert_checkpoint,
    steps.DeleteCheckpoint: _delete_checkpoint,
    steps.ReplaceMessages: _replace_messages,
    steps.DeleteRunData: _delete_run_data,
    steps.FinishedRuns: _finished_runs,
    steps.ListCheckpoints: _list_checkpoints,
    steps.ReplaceCheckpoint: _replace_checkpoint,
    steps.FindRuns: _find_runs,
    steps.StatusesAbove: _statuses_above,
    steps.PruneJournal: _prune_journal,
    steps.LoadNewest: _load_newest,
    steps.LoadHistory: _load_history,
    steps.LoadSegments: _load_segments,
    steps.Transition: _transition,
    steps.RecoverNewest: _recover_newest,
    steps.ReadRun: _read_run,
    steps.WriteRun: _write_run,
    steps.InsertCall: _insert_call,
    steps.PutRecord: _put_record,
    steps.LoadRecords: _load_records,
}
