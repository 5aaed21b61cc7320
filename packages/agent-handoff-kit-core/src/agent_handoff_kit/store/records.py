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
        return row_digest(self.run_id, self.op_id, self.state, self.terms, self.log_digest, self.log_len)

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
    """Where a checkpoint went: its sequence, and where its message log began."""

    seq: int
    log_seq: int | None


def row_digest(run_id: str, op_id: str, state: bytes, terms: bytes, log_digest: bytes, log_len: int) -> bytes:
    """The digest kept with a checkpoint, bound to its run and operation."""
    return digest(run_id, op_id, "checkpoint", state, terms, log_digest, str(log_len).encode())


class StoredCheckpoint(NamedTuple):
    """A checkpoint row as it was read; ``segments`` holds its message log, by sequence, up to it or beyond."""

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
    segments: Sequence[tuple[int, bytes]] = ()

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> StoredCheckpoint:
        return cls(*row)

    def with_segments(self, segments: Sequence[tuple[int, bytes]]) -> StoredCheckpoint:
        return self._replace(segments=segments)

    def lines(self) -> list[bytes]:
        """The encoded messages of the log up to this checkpoint, oldest first."""
        return [line for seq, data in self.segments if seq <= self.seq for line in split_lines(data)]

    def row_is_whole(self) -> bool:
        """Whether the row's bytes match their digest."""
        expected = row_digest(self.run_id, self.op_id, self.state, self.terms, self.log_digest, self.log_len)
        return expected == self.digest

    def log_is_whole(self) -> bool:
        """Whether the messages match their chained digest; reads all of them."""
        return self.log_seq is None or chain(EMPTY_CHAIN, self.lines()) == self.log_digest
