"""Rows as plain data, and what is hashed: the form of a checkpoint between the object and the table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from agent_handoff_kit.serialization import digest
from agent_handoff_kit.store import steps

EMPTY_CHAIN = bytes(32)


class StaleLog(Exception):
    """The run's message log moved on between preparing a checkpoint and writing it; prepare it again."""


class LogHead(NamedTuple):
    """The end of a message log: where it began, how many messages it holds, their chained digest."""

    log_seq: int
    length: int
    digest: bytes


class RunRow(NamedTuple):
    """A run's status, and its result and input with their digests."""

    status: str
    result: bytes | None
    result_digest: bytes | None
    input: bytes | None = None
    input_digest: bytes | None = None
    last_seq: int = 0


class Fence(NamedTuple):
    """What a write of an owned run must match: the owner and the token of its lease."""

    owner: str
    token: int


class LockedRun(NamedTuple):
    """A run row under lock. ``alive`` tells whether its owner may still work on it."""

    seq: int
    status: str
    owner: str | None
    token: int
    host: str | None
    pid: int | None
    claims: int
    input_digest: bytes | None
    alive: bool
    retry_after: float | None


class CallRow(NamedTuple):
    """A tool call as the store knows it. ``alive`` tells whether its owner may still be running it."""

    tool: str
    args_digest: bytes | None
    status: str
    attempt: int
    owner: str | None
    alive: bool
    result: bytes | None
    digest: bytes | None
    error: str | None
    finished_at: float | None


def chain(start: bytes, lines: Iterable[bytes]) -> bytes:
    """The digest of a message list: each message's bytes hashed onto the digest before it."""
    current = start
    for line in lines:
        current = hashlib.sha256(current + line).digest()
    return current


def split_lines(data: bytes) -> list[bytes]:
    """Messages of one segment; an encoded message never holds a line feed."""
    return data.split(b"\n") if data else []


class Segment(NamedTuple):
    """The messages that one checkpoint added to its log, and the log's length with them."""

    seq: int
    log_len: int
    data: bytes

    @property
    def start(self) -> int:
        """How many messages the log held before these."""
        return self.log_len - (self.data.count(b"\n") + 1 if self.data else 0)


def lineage(segments: Sequence[Segment], seq: int) -> list[Segment]:
    """The segments that make up the log of the checkpoint with this sequence, oldest first.

    Not each one before it does: messages of a handoff that failed are no part of what was said after it.
    """
    found: list[Segment] = []
    for one in reversed(segments):
        if one.seq == seq or (found and one.log_len == found[-1].start):
            found.append(one)
    # A damaged length breaks the chain; the digest tells whether all that lies before is the log after all.
    return found[::-1] if found and found[-1].start == 0 else [one for one in segments if one.seq <= seq]


class Draft(NamedTuple):
    """A checkpoint ready to be written: encoded, hashed, without a sequence.

    One that ``appends`` holds new messages only, so the log must still end where it was seen to end,
    even if there was none.
    """

    run_id: str
    op_id: str
    status: str
    from_agent: str
    to_agent: str
    envelope: bool
    lines: tuple[bytes, ...]
    extends: LogHead | None
    log_len: int
    log_digest: bytes
    state: bytes
    terms: bytes
    error: str | None
    created_at: float
    appends: bool = False

    @property
    def digest(self) -> bytes:
        return row_digest(self, self.log_digest, self.log_len)

    def at(self, seq: int) -> steps.InsertCheckpoint:
        """The row at a sequence."""
        log_seq = None
        if self.envelope:
            log_seq = seq if self.extends is None else self.extends.log_seq
        return steps.InsertCheckpoint(
            self.run_id,
            seq,
            self.op_id,
            self.status,
            self.from_agent,
            self.to_agent,
            self.envelope,
            log_seq,
            self.log_len,
            self.log_digest,
            self.state,
            self.terms,
            self.digest,
            self.error,
            self.created_at,
            b"\n".join(self.lines),
        )


class Place(NamedTuple):
    """Where a checkpoint went, and as what: its sequence, where its message log began, its status there."""

    seq: int
    log_seq: int | None
    status: str
    error: str | None
    created_at: float


class Damaged(Exception):
    """What is stored of a run cannot be all of it."""


def row_digest(row: Draft | StoredCheckpoint, log_digest: bytes, log_len: int) -> bytes:
    """The digest kept with a checkpoint, bound to its run, its operation and its agents."""
    agents = (row.from_agent, row.to_agent)
    names = (name.encode("utf-8", "surrogatepass") for name in agents)
    kind = "envelope" if row.envelope else "context"
    return digest(row.run_id, row.op_id, kind, row.state, row.terms, log_digest, str(log_len).encode(), *names)


class StoredCheckpoint(NamedTuple):
    """A checkpoint row as it was read; ``segments`` holds its message log up to it or beyond."""

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
    segments: Sequence[Segment] = ()

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> StoredCheckpoint:
        return cls(*row)

    def with_segments(self, segments: Sequence[Segment]) -> StoredCheckpoint:
        return self._replace(segments=segments)

    def lines(self) -> list[bytes]:
        """The encoded messages of the log up to this checkpoint, oldest first."""
        return [line for one in lineage(self.segments, self.seq) for line in split_lines(one.data)]

    def row_is_whole(self) -> bool:
        """Whether the row's bytes match their digest."""
        return row_digest(self, self.log_digest, self.log_len) == self.digest

    def log_is_whole(self) -> bool:
        """Whether the messages match their chained digest; reads all of them."""
        return self.log_seq is None or chain(EMPTY_CHAIN, self.lines()) == self.log_digest
