"""Dropping what is no longer needed, as scripts: old checkpoints of a run, and all data of finished runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from agent_handoff_kit.store import steps
from agent_handoff_kit.store.records import Segment, lineage
from agent_handoff_kit.store.scripts import FAILED, GOOD
from agent_handoff_kit.store.steps import Script

_RUNS_AT_ONCE = 50


class Listed(NamedTuple):
    """What pruning needs to know of a checkpoint."""

    seq: int
    status: str
    log_seq: int | None


def prune_run(run_id: str, keep: int) -> Script[int]:
    """Drop all but the newest ``keep`` checkpoints, the newest good one and the end of the message log.

    The messages of dropped checkpoints move to the oldest kept one that builds on them.
    """
    rows = yield steps.ListCheckpoints(run_id)
    listed = [Listed(*row[:3]) for row in rows]
    kept = kept_sequences(listed, keep)
    for log_seq in {one.log_seq for one in listed if one.log_seq is not None and one.seq not in kept}:
        yield from _merge_log(run_id, log_seq, kept)
    dropped = [one for one in listed if one.seq not in kept]
    for one in dropped:
        yield steps.DeleteCheckpoint(run_id, one.seq)
    if any(one.status in GOOD for one in listed):
        yield steps.PruneJournal(run_id, min(kept))
    return len(dropped)


def prune_finished(before: float) -> Script[int]:
    """Drop the data of some completed runs last changed before a time; how many, 0 when none is left."""
    rows = yield steps.FinishedRuns(before, _RUNS_AT_ONCE)
    for (run_id,) in rows:
        yield steps.DeleteRunData(run_id)
    return len(rows)


def kept_sequences(listed: list[Listed], keep: int) -> set[int]:
    """The sequences that stay: the newest ones, the newest good one, the newest with messages."""
    newest = [one.seq for one in listed[-keep:]]
    good = [one.seq for one in listed if one.status in GOOD][-1:]
    logged = [one.seq for one in listed if one.log_seq is not None and one.status != FAILED][-1:]
    return {*newest, *good, *logged}


def merged(segments: Sequence[Segment], kept: Collection[int]) -> Iterator[tuple[int, bytes]]:
    """Each kept checkpoint that builds on dropped ones, with their messages and its own."""
    for target in (one.seq for one in segments if one.seq in kept):
        own = lineage(segments, target)
        below = max((one.seq for one in own if one.seq in kept and one.seq != target), default=-1)
        parts = [one for one in own if one.seq > below]
        if len(parts) > 1:
            yield target, b"\n".join(one.data for one in parts if one.data)


def _merge_log(run_id: str, log_seq: int, kept: Collection[int]) -> Script[None]:
    rows = yield steps.LoadSegments(run_id, log_seq, max(kept))
    segments = [Segment(seq, length, bytes(data)) for seq, length, data in rows]
    for target, messages in list(merged(segments, kept)):
        yield steps.ReplaceMessages(run_id, target, messages)
