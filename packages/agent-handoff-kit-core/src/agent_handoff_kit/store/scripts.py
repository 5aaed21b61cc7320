"""Every store operation as a generator of named steps. All decisions, no I/O, no SQL.

One script is one transaction. Each can be repeated after a lost acknowledgement: inserts recognise
their operation id, updates recognise themselves as done.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from agent_handoff_kit.errors import CheckpointNotFound, KeyConflict, RunAlreadyCompleted
from agent_handoff_kit.models import HandoffStatus
from agent_handoff_kit.store import steps
from agent_handoff_kit.store.fences import require_right
from agent_handoff_kit.store.leases import lock_run
from agent_handoff_kit.store.records import (
    Draft,
    Fence,
    LockedRun,
    LogHead,
    Place,
    RunRow,
    StaleLog,
    StoredCheckpoint,
)
from agent_handoff_kit.store.steps import Script

Fences = Mapping[str, Fence]

_ANY = tuple(status.value for status in HandoffStatus)
GOOD = (HandoffStatus.VERIFIED.value, HandoffStatus.RECOVERED.value)


def add_checkpoint(draft: Draft, *, fences: Fences, now: float) -> Script[Place]:
    """Insert a checkpoint at the next sequence of its run.

    Raises:
        KeyConflict: the operation id was used for other content.
        RunAlreadyCompleted: the run is completed.
        LostOwnership, RunInProgress: the caller may not write to the run.
        StaleLog: another writer moved the run's message log on.
    """
    found = yield steps.FindOperation(draft.run_id, draft.op_id)
    if found:
        return _repeated(draft, found[0])
    if (draft.appends or draft.extends is not None) and (yield from newest_log(draft.run_id)) != draft.extends:
        raise StaleLog(draft.run_id)
    run = yield from _next_sequence(draft.run_id, fences, now)
    if run.status == "completed":
        raise RunAlreadyCompleted(draft.run_id)
    insert = draft.at(run.seq)
    yield insert
    return Place(run.seq, insert.log_seq)


def replace_checkpoint(draft: Draft, *, fences: Fences, now: float) -> Script[Place]:
    """Insert a checkpoint, or put another status or flat context in its place under the same sequence.

    Raises:
        KeyConflict: the stored one holds other messages, on which later checkpoints may build.
    """
    found = yield steps.FindOperation(draft.run_id, draft.op_id)
    if not found:
        run = yield from _next_sequence(draft.run_id, fences, now)
        insert = draft.at(run.seq)
        yield insert
        return Place(run.seq, insert.log_seq)
    yield from lock_run(draft.run_id, fences, now)
    if bytes(found[0][1]) == draft.digest:
        yield steps.Transition(draft.op_id, draft.status, _ANY, draft.error)
    else:
        yield from _overwritten(draft, found[0][0])
    return Place(found[0][0], found[0][2])


def _next_sequence(run_id: str, fences: Fences, now: float) -> Script[LockedRun]:
    (row,) = yield steps.NextSequence(run_id, now)
    run = LockedRun(*row)
    require_right(run_id, run, fences.get(run_id))
    return run


def _overwritten(draft: Draft, seq: int) -> Script[None]:
    rows = yield steps.LoadCheckpoint(draft.op_id)
    if draft.envelope or StoredCheckpoint.from_row(rows[0]).envelope:
        raise KeyConflict(draft.run_id, draft.op_id)
    yield steps.DeleteCheckpoint(draft.run_id, seq)
    yield draft.at(seq)


def newest_log(run_id: str) -> Script[LogHead | None]:
    """The end of the run's newest message log, or None."""
    rows = yield steps.NewestLog(run_id)
    return LogHead(rows[0][0], rows[0][1], bytes(rows[0][2])) if rows else None


def load_checkpoint(checkpoint_id: str) -> Script[StoredCheckpoint]:
    """A checkpoint by id.

    Raises:
        CheckpointNotFound: no row has this id.
    """
    rows = yield steps.LoadCheckpoint(checkpoint_id)
    if not rows:
        raise CheckpointNotFound(checkpoint_id)
    return (yield from _with_messages(StoredCheckpoint.from_row(rows[0])))


def newest_verified(run_id: str) -> Script[StoredCheckpoint | None]:
    """The newest VERIFIED checkpoint by sequence, whatever lies above it."""
    return (yield from _newest(run_id, (HandoffStatus.VERIFIED.value,), sys.maxsize))


def resume_point(run_id: str, *, below: int = sys.maxsize) -> Script[StoredCheckpoint | None]:
    """The newest good checkpoint if it is VERIFIED; None for a completed run or a RECOVERED one."""
    run = yield from read_run(run_id)
    if run is not None and run.status == "completed":
        return None
    newest = yield from _newest(run_id, GOOD, below)
    if newest is None or newest.status == HandoffStatus.RECOVERED.value:
        return None
    return newest


def newest_good(run_id: str) -> Script[StoredCheckpoint | None]:
    """The newest VERIFIED or RECOVERED checkpoint."""
    return (yield from _newest(run_id, GOOD, sys.maxsize))


def history(run_id: str, limit: int | None) -> Script[list[StoredCheckpoint]]:
    """The run's checkpoints, oldest first; the newest ``limit`` of them."""
    rows = yield steps.LoadHistory(run_id, -1 if limit is None else limit)
    found = [StoredCheckpoint.from_row(row) for row in reversed(rows)]
    ends = {one.log_seq: one.seq for one in found if one.log_seq is not None}
    logs: dict[int | None, Sequence[tuple[int, bytes]]] = {None: ()}
    for log_seq, seq in ends.items():
        logs[log_seq] = yield from _segments(run_id, log_seq, seq)
    return [one.with_segments(logs[one.log_seq]) for one in found]


def transition(
    checkpoint_id: str, status: str, expected: tuple[str, ...], error: str | None, *, fences: Fences, now: float
) -> Script[str | None]:
    """Change a checkpoint's status if it is an expected one; the status it had, None if it is unknown.

    Raises:
        LostOwnership, RunInProgress: the caller may not write to the run.
    """
    for (run_id,) in (yield steps.FindRun(checkpoint_id)):
        yield from lock_run(run_id, fences, now)
    rows = yield steps.Transition(checkpoint_id, status, expected, error)
    return str(rows[0][0]) if rows else None


def read_run(run_id: str) -> Script[RunRow | None]:
    """Status and result of a run, or None."""
    rows = yield steps.ReadRun(run_id)
    return RunRow(*rows[0]) if rows else None


def set_run_status(run_id: str, status: str, *, fences: Fences, now: float) -> Script[None]:
    """Insert or update a run's status.

    Raises:
        LostOwnership, RunInProgress: the caller may not write to the run.
    """
    yield from lock_run(run_id, fences, now)
    yield steps.WriteRun(run_id, status, None, None, now)


def complete_run(run_id: str, result: bytes, digest: bytes, *, fences: Fences, now: float) -> Script[None]:
    """Complete the run, store its result and mark its newest checkpoint RECOVERED.

    Raises:
        RunAlreadyCompleted: it is completed with another result.
        LostOwnership, RunInProgress: the caller may not write to the run.
    """
    run = yield from read_run(run_id)
    if run is not None and run.status == "completed":
        if run.result_digest == digest:
            return
        raise RunAlreadyCompleted(run_id)
    yield from lock_run(run_id, fences, now)
    yield steps.RecoverNewest(run_id)
    yield steps.WriteRun(run_id, "completed", result, digest, now)


def record_call(run_id: str, key: str, tool: str, result: bytes, digest: bytes, *, now: float) -> Script[None]:
    """Record the result of a call; the first one stays."""
    yield steps.InsertCall(run_id, key, tool, result, digest, now)


def _repeated(draft: Draft, row: Sequence[Any]) -> Place:
    if bytes(row[1]) != draft.digest:
        raise KeyConflict(draft.run_id, draft.op_id)
    return Place(row[0], row[2])


def _newest(run_id: str, statuses: tuple[str, ...], below: int) -> Script[StoredCheckpoint | None]:
    rows = yield steps.LoadNewest(run_id, statuses, below)
    if not rows:
        return None
    return (yield from _with_messages(StoredCheckpoint.from_row(rows[0])))


def _with_messages(stored: StoredCheckpoint) -> Script[StoredCheckpoint]:
    if stored.log_seq is None:
        return stored
    return stored.with_segments((yield from _segments(stored.run_id, stored.log_seq, stored.seq)))


def _segments(run_id: str, log_seq: int, seq: int) -> Script[list[tuple[int, bytes]]]:
    rows = yield steps.LoadSegments(run_id, log_seq, seq)
    return [(int(row[0]), bytes(row[1])) for row in rows]
