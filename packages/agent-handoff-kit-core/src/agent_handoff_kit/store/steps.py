"""Named steps: what a script asks of a backend. A backend maps each one to SQL."""

from __future__ import annotations

from dataclasses import dataclass


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
class NextSequence:
    """Lock the run row, creating it if needed; row ``(seq, status)`` with the next sequence."""

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
class RecoverNewest:
    """Mark the run's newest good checkpoint RECOVERED if it is VERIFIED; no rows."""

    run_id: str


@dataclass(frozen=True)
class ReadRun:
    """Row ``(status, result, result_digest)`` of a run."""

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
class ReadCall:
    """Row ``(result, digest, tool)`` of the recorded result of a call, the oldest first; any tool when None."""

    run_id: str
    key: str
    tool: str | None


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
    | NextSequence
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
    | ReadCall
    | InsertCall
)
