"""Every store operation as a generator of named steps. All decisions, no I/O, no SQL.

One script is one transaction. Each can be repeated after a lost acknowledgement: inserts recognise
their operation id, updates recognise themselves as done.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from agent_handoff_kit.errors import AmbiguousCheckpoint, CheckpointNotFound, KeyConflict, RunAlreadyCompleted
from agent_handoff_kit.models import HandoffStatus
from agent_handoff_kit.store import steps
from agent_handoff_kit.store.fences import require_right
from agent_handoff_kit.store.leases import lock_run
from agent_handoff_kit.store.records import (
    Damaged,
    Draft,
    Fence,
    LockedRun,
    LogHead,
    Place,
    RunRow,
    Segment,
    StaleLog,
    StoredCheckpoint,
    row_digest,
)
from agent_handoff_kit.store.steps import Script

Fences = Mapping[str, Fence]

_PENDING = HandoffStatus.PENDING.value
FAILED = HandoffStatus.FAILED.value
_ANY = tuple(status.value for status in HandoffStatus)
GOOD = (HandoffStatus.VERIFIED.value, HandoffStatus.RECOVERED.value)


def add_checkpoint(draft: Draft, *, fences: Fences, now: float) -> Script[Place]:
    """Insert a checkpoint at the next sequence of its run; one that is there already is judged by what is stored.

    Raises:
        KeyConflict: the operation id was used for other content.
        RunAlreadyCompleted: the run is completed.
        LostOwnership, RunInProgress: the caller may not write to the run.
        StaleLog: another writer moved the run's message log on.
    """
    found = yield steps.FindOperation(draft.run_id, draft.op_id)
    if found:
        return (yield from _repeated(draft, StoredCheckpoint.from_row(found[0]), fences, now))
    if (draft.appends or draft.extends is not None) and (yield from newest_log(draft.run_id)) != draft.extends:
        raise StaleLog(draft.run_id)
    run = yield from _next_sequence(draft.run_id, fences, now)
    if run.status == "completed":
        raise RunAlreadyCompleted(draft.run_id)
    return (yield from _inserted(draft, run.seq))


def replace_checkpoint(draft: Draft, *, fences: Fences, now: float) -> Script[Place]:
    """Insert a checkpoint, or put it in the place of the one with its id, under the same sequence.

    Raises:
        KeyConflict: the stored one holds other messages, on which later checkpoints may build.
    """
    found = yield steps.FindOperation(draft.run_id, draft.op_id)
    if not found:
        run = yield from _next_sequence(draft.run_id, fences, now)
        return (yield from _inserted(draft, run.seq))
    run = yield from lock_run(draft.run_id, fences, now)
    stored = StoredCheckpoint.from_row(found[0])
    if (draft.envelope, draft.log_len, draft.log_digest) == (stored.envelope, stored.log_len, stored.log_digest):
        yield _in_place(draft, stored.seq)
        return Place(stored.seq, stored.log_seq, draft.status, draft.error, draft.created_at)
    if stored.seq != run.seq and (draft.envelope or stored.envelope):
        raise KeyConflict(draft.run_id, draft.op_id)
    yield steps.DeleteCheckpoint(draft.run_id, stored.seq)
    return (yield from _inserted(draft, stored.seq))


def _inserted(draft: Draft, seq: int) -> Script[Place]:
    insert = draft.at(seq)
    yield insert
    return Place(seq, insert.log_seq, draft.status, draft.error, draft.created_at)


def _in_place(draft: Draft, seq: int) -> steps.ReplaceCheckpoint:
    names = (draft.status, draft.from_agent, draft.to_agent)
    return steps.ReplaceCheckpoint(
        draft.run_id, seq, *names, draft.state, draft.terms, draft.digest, draft.error, draft.created_at
    )


def _next_sequence(run_id: str, fences: Fences, now: float) -> Script[LockedRun]:
    (row,) = yield steps.NextSequence(run_id, now)
    run = LockedRun(*row)
    require_right(run_id, run, fences.get(run_id))
    return run


def _repeated(draft: Draft, stored: StoredCheckpoint, fences: Fences, now: float) -> Script[Place]:
    if not (yield from _is_same(draft, stored)):
        raise KeyConflict(draft.run_id, draft.op_id)
    status, error = stored.status, stored.error
    if status == _PENDING and draft.status != _PENDING:
        yield from lock_run(draft.run_id, fences, now)
        yield steps.Transition(draft.run_id, draft.op_id, draft.status, (_PENDING,), draft.error)
        status, error = draft.status, draft.error
    return Place(stored.seq, stored.log_seq, status, error, stored.created_at)


def _is_same(draft: Draft, stored: StoredCheckpoint) -> Script[bool]:
    if stored.digest == draft.digest:
        return True
    if not draft.appends or stored.log_seq is None:
        return False
    # The log has moved on since, so what was appended is compared with what is stored of this very checkpoint.
    segments = yield from _segments(stored.run_id, stored.log_seq, stored.seq)
    appended = b"\n".join(draft.lines)
    own = next((one.data for one in segments if one.seq == stored.seq), b"")
    same_messages = own == appended or own.endswith(b"\n" + appended)
    return same_messages and row_digest(draft, stored.log_digest, stored.log_len) == stored.digest


def newest_log(run_id: str) -> Script[LogHead | None]:
    """The end of the run's newest message log, or None."""
    rows = yield steps.NewestLog(run_id)
    return LogHead(rows[0][0], rows[0][1], bytes(rows[0][2])) if rows else None


def load_checkpoint(run_id: str, checkpoint_id: str) -> Script[StoredCheckpoint]:
    """A checkpoint of a run by its id.

    Raises:
        CheckpointNotFound: the run has none with this id.
    """
    rows = yield steps.FindOperation(run_id, checkpoint_id)
    if not rows:
        raise CheckpointNotFound(checkpoint_id)
    return (yield from _with_messages(StoredCheckpoint.from_row(rows[0])))


def newest_verified(run_id: str) -> Script[StoredCheckpoint | None]:
    """The newest VERIFIED checkpoint by sequence, whatever lies above it."""
    return (yield from _newest(run_id, (HandoffStatus.VERIFIED.value,), sys.maxsize))


def resume_point(run_id: str, *, below: int = sys.maxsize) -> Script[StoredCheckpoint | None]:
    """The newest good checkpoint if it is VERIFIED; None for a completed run or a RECOVERED one.

    Raises:
        Damaged: checkpoints above it are missing or unreadable; not with ``below``.
    """
    run = yield from read_run(run_id)
    if run is not None and run.status == "completed":
        return None
    newest = yield from _newest(run_id, GOOD, below)
    if below == sys.maxsize:
        yield from _require_all_above(run_id, run, 0 if newest is None else newest.seq)
    if newest is None or newest.status == HandoffStatus.RECOVERED.value:
        return None
    return newest


def newest_good(run_id: str) -> Script[StoredCheckpoint | None]:
    """The newest VERIFIED or RECOVERED checkpoint.

    Raises:
        Damaged: checkpoints above it are missing or unreadable.
    """
    newest = yield from _newest(run_id, GOOD, sys.maxsize)
    yield from _require_all_above(run_id, (yield from read_run(run_id)), 0 if newest is None else newest.seq)
    return newest


def _require_all_above(run_id: str, run: RunRow | None, seq: int) -> Script[None]:
    """Make sure that no newer good checkpoint was lost: the run's row knows its last sequence."""
    if run is None or run.last_seq == seq:
        return
    rows = yield steps.StatusesAbove(run_id, seq)
    strange = [f"checkpoint {number} has status {status!r}" for number, status in rows if status not in _ANY]
    if strange:
        raise Damaged(f"run {run_id!r}: {'; '.join(strange)}")
    newest = rows[0][0] if rows else seq
    if newest != run.last_seq:
        raise Damaged(f"run {run_id!r} has {run.last_seq} checkpoints, and the last one found is {newest}")


def history(run_id: str, limit: int | None) -> Script[list[StoredCheckpoint]]:
    """The run's checkpoints, oldest first; the newest ``limit`` of them."""
    rows = yield steps.LoadHistory(run_id, -1 if limit is None else limit)
    found = [StoredCheckpoint.from_row(row) for row in reversed(rows)]
    ends = {one.log_seq: one.seq for one in found if one.log_seq is not None}
    logs: dict[int | None, Sequence[Segment]] = {None: ()}
    for log_seq, seq in ends.items():
        logs[log_seq] = yield from _segments(run_id, log_seq, seq)
    return [one.with_segments(logs[one.log_seq]) for one in found]


def transition(
    run_id: str | None,
    checkpoint_id: str,
    status: str,
    expected: tuple[str, ...],
    error: str | None,
    *,
    fences: Fences,
    now: float,
) -> Script[str | None]:
    """Change a checkpoint's status if it is an expected one; the status it had, None if it is unknown.

    Raises:
        AmbiguousCheckpoint: no run is named, and several have a checkpoint with this id.
        LostOwnership, RunInProgress: the caller may not write to the run.
    """
    if run_id is None:
        runs = [str(one) for (one,) in (yield steps.FindRuns(checkpoint_id))]
        if len(runs) > 1:
            raise AmbiguousCheckpoint(checkpoint_id, runs)
        if not runs:
            return None
        run_id = runs[0]
    yield from lock_run(run_id, fences, now)
    rows = yield steps.Transition(run_id, checkpoint_id, status, expected, error)
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


def complete_run(
    run_id: str,
    result: bytes,
    digest: bytes,
    records: Sequence[steps.PutRecord] = (),
    *,
    fences: Fences,
    now: float,
) -> Script[None]:
    """Complete the run, store its result, mark its newest checkpoint RECOVERED, and keep journal records with it.

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
    for record in records:  # noqa: UP028 - a list cannot be sent the rows
        yield record
    yield steps.RecoverNewest(run_id)
    yield steps.WriteRun(run_id, "completed", result, digest, now)


def record_call(run_id: str, key: str, tool: str, result: bytes, digest: bytes, *, now: float) -> Script[None]:
    """Record the result of a call; the first one stays."""
    yield steps.InsertCall(run_id, key, tool, result, digest, now)


def _newest(run_id: str, statuses: tuple[str, ...], below: int) -> Script[StoredCheckpoint | None]:
    rows = yield steps.LoadNewest(run_id, statuses, below)
    if not rows:
        return None
    return (yield from _with_messages(StoredCheckpoint.from_row(rows[0])))


def _with_messages(stored: StoredCheckpoint) -> Script[StoredCheckpoint]:
    if stored.log_seq is None:
        return stored
    return stored.with_segments((yield from _segments(stored.run_id, stored.log_seq, stored.seq)))


def _segments(run_id: str, log_seq: int, seq: int) -> Script[list[Segment]]:
    rows = yield steps.LoadSegments(run_id, log_seq, seq)
    return [Segment(int(number), int(length), bytes(data)) for number, length, data in rows]
