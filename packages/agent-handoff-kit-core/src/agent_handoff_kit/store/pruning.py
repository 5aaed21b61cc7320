"""Dropping what is no longer needed, as scripts: old checkpoints of a run, and all data of finished runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agent_handoff_kit.store import steps
from agent_handoff_kit.store.scripts import GOOD
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
    listed = [Listed(*row) for row in rows]
    kept = kept_sequences(listed, keep)
    dropped = [one for one in listed if one.seq not in kept]
    for target, sources in merges(listed, kept):
        yield from _merge(run_id, target, sources)
    for one in dropped:
        yield steps.DeleteCheckpoint(run_id, one.seq)
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
    logged = [one.seq for one in listed if one.log_seq is not None][-1:]
    return {*newest, *good, *logged}


def merges(listed: list[Listed], kept: set[int]) -> Iterable[tuple[Listed, list[Listed]]]:
    """Each kept checkpoint with the dropped ones just before it in its log, oldest first."""
    waiting: dict[int, list[Listed]] = {}
    for one in listed:
        if one.log_seq is None:
            continue
        before = waiting.setdefault(one.log_seq, [])
        if one.seq not in kept:
            before.append(one)
        elif before:
            yield one, list(before)
            before.clear()


def _merge(run_id: str, target: Listed, sources: list[Listed]) -> Script[None]:
    assert target.log_seq is not None
    wanted = {target.seq, *(one.seq for one in sources)}
    rows = yield steps.LoadSegments(run_id, target.log_seq, target.seq)
    parts = [bytes(data) for seq, data in rows if seq in wanted and data]
    yield steps.ReplaceMessages(run_id, target.seq, b"\n".join(parts))
