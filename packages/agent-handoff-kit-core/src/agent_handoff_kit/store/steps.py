"""Named steps: what a script asks of a backend. A backend maps each one to SQL."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class FindOperation(NamedTuple):
    """The full row of the checkpoint with this operation id in this run."""

    run_id: str
    op_id: str


class NewestLog(NamedTuple):
    """Row ``(log_seq, log_len, log_digest)`` of the run's newest message log, that of a FAILED checkpoint left out."""

    run_id: str


class LockRun(NamedTuple):
    """Lock the run row, creating it if needed; its ``LockedRun`` row."""

    run_id: str
    now: float


class NextSequence(NamedTuple):
    """Lock the run row, creating it if needed, and take its next sequence; its ``LockedRun`` row."""

    run_id: str
    now: float


class InsertCheckpoint(NamedTuple):
    """Insert one checkpoint row; no rows."""

    run_id: str
    seq: int
    op_id: str
    status: str
    from_agent: str
    to_agent: str
    envelope: bool
    log_seq: int | None
    log_len: int
    log_digest: bytes
    state: bytes
    terms: bytes
    digest: bytes
    error: str | None
    created_at: float
    messages: bytes


class DeleteCheckpoint(NamedTuple):
    """Delete the checkpoint with this sequence and its messages; no rows."""

    run_id: str
    seq: int


class ReplaceMessages(NamedTuple):
    """Put other bytes in the place of a checkpoint's own messages; no rows."""

    run_id: str
    seq: int
    messages: bytes


class DeleteRunData(NamedTuple):
    """Delete all checkpoints, messages and calls of the run; its run row stays; no rows."""

    run_id: str


class FinishedRuns(NamedTuple):
    """Rows ``(run_id,)`` of completed runs that still have data and were last changed before a time."""

    before: float
    limit: int


class LoadNewest(NamedTuple):
    """The full row of the run's newest checkpoint with one of these statuses, below a sequence."""

    run_id: str
    statuses: tuple[str, ...]
    below: int


class LoadHistory(NamedTuple):
    """Full rows of the run, newest first, at most ``limit`` (all for -1)."""

    run_id: str
    limit: int


class ListCheckpoints(NamedTuple):
    """Rows ``(seq, status, log_seq, log_len)`` of the run, oldest first."""

    run_id: str


class LoadSegments(NamedTuple):
    """Rows ``(seq, log_len, messages)`` of one message log, in order, up to a sequence."""

    run_id: str
    log_seq: int
    seq: int


class ReplaceCheckpoint(NamedTuple):
    """Put other content in the place of a checkpoint; its messages stay; no rows."""

    run_id: str
    seq: int
    status: str
    from_agent: str
    to_agent: str
    state: bytes
    terms: bytes
    digest: bytes
    error: str | None
    created_at: float


class StatusesAbove(NamedTuple):
    """Rows ``(seq, status)`` of the run's checkpoints above a sequence, newest first."""

    run_id: str
    seq: int


class PruneJournal(NamedTuple):
    """Delete the run's journal of epochs before a sequence; no rows."""

    run_id: str
    before: int


class Transition(NamedTuple):
    """Set a checkpoint's status if it has one of the expected ones; row ``(status,)`` before the change."""

    run_id: str
    checkpoint_id: str
    status: str
    expected: tuple[str, ...]
    error: str | None


class FindRuns(NamedTuple):
    """Rows ``(run_id,)`` of the runs that have a checkpoint with this id."""

    checkpoint_id: str


class SetLease(NamedTuple):
    """Give the run to an owner for ``ttl`` seconds from the store's clock; no rows."""

    run_id: str
    owner: str
    host: str
    pid: int
    token: int
    ttl: float
    claims: int


class RenewLease(NamedTuple):
    """Extend a lease that is still held; row ``(run_id,)`` if it is."""

    run_id: str
    owner: str
    token: int
    ttl: float


class EndLease(NamedTuple):
    """Free a lease that is still held; no rows."""

    run_id: str
    owner: str
    token: int


class EndLeasesOf(NamedTuple):
    """Free the runs that an owner has."""

    owner: str


class LeasedRuns(NamedTuple):
    """``(run_id,)`` and ``LockedRun`` values of open runs whose lease has lapsed, at most ``limit``."""

    limit: int


class SetInput(NamedTuple):
    """Keep the run's input and its digest; no rows."""

    run_id: str
    input: bytes
    digest: bytes


class RecoverNewest(NamedTuple):
    """Mark the run's newest good checkpoint RECOVERED if it is VERIFIED; no rows."""

    run_id: str


class ReadRun(NamedTuple):
    """Row ``(status, result, result_digest, input, input_digest, last_seq)`` of a run."""

    run_id: str


class WriteRun(NamedTuple):
    """Insert or update the run's status; ``result`` and its digest stay when None; no rows."""

    run_id: str
    status: str
    result: bytes | None
    result_digest: bytes | None
    now: float


class ReadCalls(NamedTuple):
    """``CallRow`` rows of a key, the oldest first; of any tool when None."""

    run_id: str
    key: str
    tool: str | None


class StartCall(NamedTuple):
    """Put a call into state ``started`` under an owner, for ``ttl`` seconds from the store's clock; no rows."""

    run_id: str
    key: str
    tool: str
    args_digest: bytes | None
    attempt: int
    owner: str
    error: str | None
    ttl: float
    now: float


class RenewCall(NamedTuple):
    """Extend the time of a started call; row ``(key,)`` if it is still the owner's."""

    run_id: str
    key: str
    tool: str
    owner: str
    ttl: float


class EndCall(NamedTuple):
    """Put a call into another state; ``owner`` None for any owner; row ``(status,)`` after the change, or none."""

    run_id: str
    key: str
    tool: str
    owner: str | None
    status: str
    result: bytes | None
    digest: bytes | None
    error: str | None
    now: float


class InsertCall(NamedTuple):
    """Record the result of a call unless it has one; no rows."""

    run_id: str
    key: str
    tool: str
    result: bytes
    digest: bytes
    now: float


class PutRecord(NamedTuple):
    """Keep a journal record under its key in an epoch of the run, in place of one with the same key; no rows."""

    run_id: str
    epoch: int
    key: str
    data: bytes
    digest: bytes


class LoadRecords(NamedTuple):
    """Rows ``(key, data, digest)`` of one epoch of the run's journal, in the order of writing."""

    run_id: str
    epoch: int


Step = (
    FindOperation
    | NewestLog
    | LockRun
    | NextSequence
    | FindRuns
    | ReplaceCheckpoint
    | StatusesAbove
    | PruneJournal
    | SetLease
    | RenewLease
    | EndLease
    | EndLeasesOf
    | LeasedRuns
    | SetInput
    | InsertCheckpoint
    | DeleteCheckpoint
    | ReplaceMessages
    | DeleteRunData
    | FinishedRuns
    | ListCheckpoints
    | LoadNewest
    | LoadHistory
    | LoadSegments
    | Transition
    | RecoverNewest
    | ReadRun
    | WriteRun
    | ReadCalls
    | StartCall
    | RenewCall
    | EndCall
    | InsertCall
    | PutRecord
    | LoadRecords
)

Rows = Sequence[Sequence[Any]]
Script = Generator[Step, Rows, T]
