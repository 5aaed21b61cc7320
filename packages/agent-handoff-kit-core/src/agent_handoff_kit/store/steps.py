"""Named steps: what a script asks of a backend. A backend maps each one to SQL."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class FindOperation:
    """Rows ``(seq, digest)`` of the checkpoint with this operation id in this run."""

    run_id: str
    op_id: str


@dataclass(frozen=True)
class NewestLog:
    """Row ``(log_seq, log_len, log_digest)`` of the newest message log of the run."""

    run_id: str


@dataclass(frozen=True)
class LockRun:
    """Lock the run row, creating it if needed; its ``LockedRun`` row."""

    run_id: str
    now: float


@dataclass(frozen=True)
class NextSequence:
    """Lock the run row, creating it if needed, and take its next sequence; its ``LockedRun`` row."""

    run_id: str
    now: float


@dataclass(frozen=True)
class InsertCheckpoint:
    """Insert one checkpoint row; no rows."""

    run_id: str
    seq: int
    op_id: str
    status: str
    from_agent: str
    to_agent: str
    envelope: bool
    messages: bytes
    log_seq: int | None
    log_len: int
    log_digest: bytes
    state: bytes
    terms: bytes
    digest: bytes
    error: str | None
    created_at: float


@dataclass(frozen=True)
class DeleteCheckpoint:
    """Delete the checkpoint with this sequence and its messages; no rows."""

    run_id: str
    seq: int


@dataclass(frozen=True)
class ReplaceMessages:
    """Put other bytes in the place of a checkpoint's own messages; no rows."""

    run_id: str
    seq: int
    messages: bytes


@dataclass(frozen=True)
class DeleteRunData:
    """Delete all checkpoints, messages and calls of the run; its run row stays; no rows."""

    run_id: str


@dataclass(frozen=True)
class FinishedRuns:
    """Rows ``(run_id,)`` of completed runs that still have data and were last changed before a time."""

    before: float
    limit: int


@dataclass(frozen=True)
class LoadCheckpoint:
    """The full row of a checkpoint, by its id."""

    checkpoint_id: str


@dataclass(frozen=True)
class LoadNewest:
    """The full row of the run's newest checkpoint with one of these statuses, below a sequence."""

    run_id: str
    statuses: tuple[str, ...]
    below: int


@dataclass(frozen=True)
class LoadHistory:
    """Full rows of the run, newest first, at most ``limit`` (all for -1)."""

    run_id: str
    limit: int


@dataclass(frozen=True)
class ListCheckpoints:
    """Rows ``(seq, status, log_seq)`` of the run, oldest first."""

    run_id: str


@dataclass(frozen=True)
class LoadSegments:
    """Rows ``(seq, messages)`` of one message log, in order, up to a sequence."""

    run_id: str
    log_seq: int
    seq: int


@dataclass(frozen=True)
class Transition:
    """Set a checkpoint's status if it has one of the expected ones; row ``(status,)`` before the change."""

    checkpoint_id: str
    status: str
    expected: tuple[str, ...]
    error: str | None


@dataclass(frozen=True)
class FindRun:
    """Row ``(run_id,)`` of a checkpoint."""

    checkpoint_id: str


@dataclass(frozen=True)
class SetLease:
    """Give the run to an owner for ``ttl`` seconds from the store's clock; no rows."""

    run_id: str
    owner: str
    host: str
    pid: int
    token: int
    ttl: float
    claims: int


@dataclass(frozen=True)
class RenewLease:
    """Extend a lease that is still held; row ``(run_id,)`` if it is."""

    run_id: str
    owner: str
    token: int
    ttl: float


@dataclass(frozen=True)
class EndLease:
    """Free a lease that is still held; no rows."""

    run_id: str
    owner: str
    token: int


@dataclass(frozen=True)
class LeasedRuns:
    """``(run_id,)`` and ``LockedRun`` values of open runs whose lease has lapsed, at most ``limit``."""

    limit: int


@dataclass(frozen=True)
class SetInput:
    """Keep the run's input and its digest; no rows."""

    run_id: str
    input: bytes
    digest: bytes


@dataclass(frozen=True)
class RecoverNewest:
    """Mark the run's newest good checkpoint RECOVERED if it is VERIFIED; no rows."""

    run_id: str


@dataclass(frozen=True)
class ReadRun:
    """Row ``(status, result, result_digest, input, input_digest)`` of a run."""

    run_id: str


@dataclass(frozen=True)
class WriteRun:
    """Insert or update the run's status; ``result`` and its digest stay when None; no rows."""

    run_id: str
    status: str
    result: bytes | None
    result_digest: bytes | None
    now: float


@dataclass(frozen=True)
class ReadCalls:
    """``CallRow`` rows of a key, the oldest first; of any tool when None."""

    run_id: str
    key: str
    tool: str | None


@dataclass(frozen=True)
class StartCall:
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


@dataclass(frozen=True)
class RenewCall:
    """Extend the time of a started call; row ``(key,)`` if it is still the owner's."""

    run_id: str
    key: str
    tool: str
    owner: str
    ttl: float


@dataclass(frozen=True)
class EndCall:
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


@dataclass(frozen=True)
class InsertCall:
    """Record the result of a call unless it has one; no rows."""

    run_id: str
    key: str
    tool: str
    result: bytes
    digest: bytes
    now: float


Step = (
    FindOperation
    | NewestLog
    | LockRun
    | NextSequence
    | FindRun
    | SetLease
    | RenewLease
    | EndLease
    | LeasedRuns
    | SetInput
    | InsertCheckpoint
    | DeleteCheckpoint
    | ReplaceMessages
    | DeleteRunData
    | FinishedRuns
    | ListCheckpoints
    | LoadCheckpoint
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
)

Rows = Sequence[Sequence[Any]]
Script = Generator[Step, Rows, T]
