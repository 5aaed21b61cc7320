"""The steps of tool calls as SQLite statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_handoff_kit.store import steps
from agent_handoff_kit.store.boot_clock import boot_id, boot_time
from agent_handoff_kit.store.records import CallRow
from agent_handoff_kit.store.session import Session

Rows = list[tuple[Any, ...]]

_THIS_CALL = "run_id = ? AND key = ? AND tool = ?"


def _read_calls(session: Session, step: steps.ReadCalls) -> Rows:
    rows = session.connection.execute(
        "SELECT tool, args_digest, status, attempt, owner, result, digest, error, finished_at, boot_id, lease_until"
        " FROM call WHERE run_id = ? AND key = ? AND tool = coalesce(?, tool) ORDER BY id",
        (step.run_id, step.key, step.tool),
    ).fetchall()
    return [_judged(session, row) for row in rows]


def _judged(session: Session, row: tuple[Any, ...]) -> CallRow:
    tool, args_digest, status, attempt, owner, result, digest, error, finished_at, boot, until = row
    in_time = owner is not None and boot == boot_id() and until > boot_time()
    alive = in_time and session.owner.is_alive(str(owner))
    return CallRow(tool, args_digest, status, attempt, owner, alive, result, digest, error, finished_at)


def _start_call(session: Session, step: steps.StartCall) -> Rows:
    this = (step.run_id, step.key, step.tool, step.args_digest)
    session.connection.execute(
        "INSERT INTO call (run_id, key, tool, args_digest, status, attempt, owner, error, boot_id, lease_until,"
        " created_at) VALUES (?, ?, ?, ?, 'started', ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, key, tool) DO UPDATE SET"
        " args_digest = excluded.args_digest, status = excluded.status, attempt = excluded.attempt,"
        " owner = excluded.owner, boot_id = excluded.boot_id, lease_until = excluded.lease_until,"
        " result = NULL, digest = NULL, error = excluded.error, finished_at = NULL",
        (*this, step.attempt, step.owner, step.error, boot_id(), boot_time() + step.ttl, step.now),
    )
    return []


def _renew_call(session: Session, step: steps.RenewCall) -> Rows:
    this = (step.run_id, step.key, step.tool, step.owner)
    session.connection.execute(
        f"UPDATE call SET lease_until = ? WHERE {_THIS_CALL} AND owner = ? AND status = 'started'",
        (boot_time() + step.ttl, *this),
    )
    return session.connection.execute(
        f"SELECT key FROM call WHERE {_THIS_CALL} AND owner = ? AND status = 'started'", this
    ).fetchall()


def _end_call(session: Session, step: steps.EndCall) -> Rows:
    this = (step.run_id, step.key, step.tool)
    session.connection.execute(
        "UPDATE call SET status = ?, result = ?, digest = ?, error = ?, finished_at = ?,"
        f" boot_id = NULL, lease_until = NULL WHERE {_THIS_CALL} AND coalesce(owner, '') = coalesce(?, owner, '')",
        (step.status, step.result, step.digest, step.error, step.now, *this, step.owner),
    )
    return session.connection.execute(
        f"SELECT status FROM call WHERE {_THIS_CALL} AND coalesce(owner, '') = coalesce(?, owner, '')",
        (*this, step.owner),
    ).fetchall()


TABLE: dict[type[Any], Callable[[Session, Any], Rows]] = {
    steps.ReadCalls: _read_calls,
    steps.StartCall: _start_call,
    steps.RenewCall: _renew_call,
    steps.EndCall: _end_call,
}
