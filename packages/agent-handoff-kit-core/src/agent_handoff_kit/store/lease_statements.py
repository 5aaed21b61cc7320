"""The steps of runs and leases as SQLite statements. Time is the machine's boot clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_handoff_kit.store import steps
from agent_handoff_kit.store.boot_clock import boot_id, boot_time
from agent_handoff_kit.store.records import LockedRun
from agent_handoff_kit.store.session import Session

Rows = list[tuple[Any, ...]]

_LOCKED = "last_seq, status, owner, token, host, pid, claims, input_digest, boot_id, lease_until"


def _lock_run(session: Session, step: steps.LockRun) -> Rows:
    session.connection.execute(
        "INSERT INTO run (run_id, status, updated_at) VALUES (?, 'open', ?) ON CONFLICT (run_id) DO NOTHING",
        (step.run_id, step.now),
    )
    return [_locked(session, step.run_id)]


def _next_sequence(session: Session, step: steps.NextSequence) -> Rows:
    session.connection.execute(
        "INSERT INTO run (run_id, status, last_seq, updated_at) VALUES (?, 'open', 1, ?)"
        " ON CONFLICT (run_id) DO UPDATE SET last_seq = last_seq + 1, claims = 0, updated_at = excluded.updated_at",
        (step.run_id, step.now),
    )
    return [_locked(session, step.run_id)]


def _locked(session: Session, run_id: str) -> tuple[Any, ...]:
    (row,) = session.connection.execute(f"SELECT {_LOCKED} FROM run WHERE run_id = ?", (run_id,)).fetchall()
    return _judged(session, row)


def _judged(session: Session, row: tuple[Any, ...]) -> LockedRun:
    seq, status, owner, token, host, pid, claims, digest, boot, until = row
    left = until - boot_time() if owner is not None and boot == boot_id() else 0.0
    alive = left > 0 and session.owner.is_alive(str(owner))
    return LockedRun(seq, status, owner, token, host, pid, claims, digest, alive, left if alive else None)


def _set_lease(session: Session, step: steps.SetLease) -> Rows:
    session.connection.execute(
        "UPDATE run SET owner = ?, host = ?, pid = ?, token = ?, claims = ?, boot_id = ?, lease_until = ?"
        " WHERE run_id = ?",
        (step.owner, step.host, step.pid, step.token, step.claims, boot_id(), boot_time() + step.ttl, step.run_id),
    )
    return []


def _renew_lease(session: Session, step: steps.RenewLease) -> Rows:
    session.connection.execute(
        "UPDATE run SET lease_until = ? WHERE run_id = ? AND owner = ? AND token = ?",
        (boot_time() + step.ttl, step.run_id, step.owner, step.token),
    )
    return session.connection.execute(
        "SELECT run_id FROM run WHERE run_id = ? AND owner = ? AND token = ?", (step.run_id, step.owner, step.token)
    ).fetchall()


def _end_lease(session: Session, step: steps.EndLease) -> Rows:
    session.connection.execute(
        "UPDATE run SET owner = NULL, host = NULL, pid = NULL, boot_id = NULL, lease_until = NULL, claims = 0"
        " WHERE run_id = ? AND owner = ? AND token = ?",
        (step.run_id, step.owner, step.token),
    )
    return []


def _end_leases_of(session: Session, step: steps.EndLeasesOf) -> Rows:
    session.connection.execute(
        "UPDATE run SET owner = NULL, host = NULL, pid = NULL, boot_id = NULL, lease_until = NULL, claims = 0"
        " WHERE owner = ?",
        (step.owner,),
    )
    return []


def _leased_runs(session: Session, step: steps.LeasedRuns) -> Rows:
    rows = session.connection.execute(
        f"SELECT run_id, {_LOCKED} FROM run WHERE owner IS NOT NULL AND status = 'open'"
    ).fetchall()
    judged = [(str(run_id), _judged(session, tuple(row))) for run_id, *row in rows]
    lapsed = [(run_id, *run) for run_id, run in judged if not run.alive]
    return lapsed[: step.limit]


def _set_input(session: Session, step: steps.SetInput) -> Rows:
    session.connection.execute(
        "UPDATE run SET input = ?, input_digest = ? WHERE run_id = ?", (step.input, step.digest, step.run_id)
    )
    return []


TABLE: dict[type[Any], Callable[[Session, Any], Rows]] = {
    steps.LockRun: _lock_run,
    steps.NextSequence: _next_sequence,
    steps.SetLease: _set_lease,
    steps.RenewLease: _renew_lease,
    steps.EndLease: _end_lease,
    steps.EndLeasesOf: _end_leases_of,
    steps.LeasedRuns: _leased_runs,
    steps.SetInput: _set_input,
}
