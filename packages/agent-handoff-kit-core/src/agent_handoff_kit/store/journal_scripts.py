"""The journal as scripts: what happened in a run since its last checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_handoff_kit.store import steps
from agent_handoff_kit.store.leases import lock_run
from agent_handoff_kit.store.records import Fence
from agent_handoff_kit.store.steps import Script


def put_records(
    run_id: str, records: Sequence[steps.PutRecord], *, fences: Mapping[str, Fence], now: float
) -> Script[None]:
    """Keep journal records of the run, all or none.

    Raises:
        LostOwnership, RunInProgress: the caller may not write to the run.
    """
    yield from lock_run(run_id, fences, now)
    for record in records:  # noqa: UP028 - a list cannot be sent the rows
        yield record


def load_records(run_id: str, epoch: int) -> Script[list[tuple[str, bytes, bytes]]]:
    """The records of one epoch, in the order of writing: key, bytes, digest."""
    rows = yield steps.LoadRecords(run_id, epoch)
    return [(str(key), bytes(data), bytes(mark)) for key, data, mark in rows]
