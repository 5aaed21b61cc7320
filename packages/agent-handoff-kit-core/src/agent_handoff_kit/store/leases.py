"""Who works on a run, as scripts: take, renew, end a lease; claim runs whose owner is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent_handoff_kit.errors import LostOwnership, RunAlreadyCompleted, RunInProgress, RunInputMismatch
from agent_handoff_kit.store import steps
from agent_handoff_kit.store.fences import require_right
from agent_handoff_kit.store.records import Fence, LockedRun
from agent_handoff_kit.store.steps import Script

MOST_CLAIMS = 5


class Claimant(NamedTuple):
    """Who asks for a lease, and for how long, in seconds."""

    owner: str
    host: str
    pid: int
    ttl: float


class Claimed(NamedTuple):
    """A run taken over from an owner that is gone."""

    run_id: str
    token: int


def lock_run(run_id: str, fences: Mapping[str, Fence], now: float) -> Script[LockedRun]:
    """Lock the run row for a write of the caller's.

    Raises:
        LostOwnership, RunInProgress: the caller may not write.
    """
    (row,) = yield steps.LockRun(run_id, now)
    run = LockedRun(*row)
    require_right(run_id, run, fences.get(run_id))
    return run


def take_lease(run_id: str, claimant: Claimant, now: float) -> Script[int]:
    """Give the run to the claimant; the fencing token. The same owner gets the same token again.

    Raises:
        RunAlreadyCompleted: the run is completed.
        RunInProgress: another owner's lease is alive.
    """
    (row,) = yield steps.LockRun(run_id, now)
    run = LockedRun(*row)
    if run.status == "completed":
        raise RunAlreadyCompleted(run_id)
    if run.owner == claimant.owner:
        token = run.token
    elif run.alive and run.owner is not None:
        raise RunInProgress(run_id, run.owner, run.host, run.pid, run.retry_after)
    else:
        token = run.token + 1
    yield steps.SetLease(run_id, claimant.owner, claimant.host, claimant.pid, token, claimant.ttl, 0)
    if run.status in ("failed", "in_doubt"):
        yield steps.WriteRun(run_id, "open", None, None, now)
    return token


def renew(renewals: Sequence[steps.RenewLease | steps.RenewCall]) -> Script[list[bool]]:
    """Extend leases; for each whether it is still held."""
    held: list[bool] = []
    for renewal in renewals:
        held.append(bool((yield renewal)))
    return held


def end_lease(run_id: str, fence: Fence) -> Script[None]:
    """Free a run; a lease that passed on already stays with its new owner."""
    yield steps.EndLease(run_id, fence.owner, fence.token)


def end_leases_of(owner: str) -> Script[None]:
    """Free whatever an owner has, under whatever token: it does not know whether it got its lease."""
    yield steps.EndLeasesOf(owner)


def claim_lapsed(claimants: Sequence[Claimant], now: float) -> Script[list[Claimed]]:
    """Give open runs whose lease has lapsed to the claimants, one each.

    A run claimed five times without a new checkpoint becomes failed: it takes its workers down.
    """
    rows = yield steps.LeasedRuns(len(claimants) * 2)
    waiting = list(claimants)
    claimed: list[Claimed] = []
    for run_id, *values in rows:
        run = LockedRun(*values)
        if run.claims >= MOST_CLAIMS:
            yield from _fail(run_id, run, now)
        elif waiting:
            claimant = waiting.pop(0)
            token = run.token + 1
            yield steps.SetLease(
                run_id, claimant.owner, claimant.host, claimant.pid, token, claimant.ttl, run.claims + 1
            )
            claimed.append(Claimed(run_id, token))
    return claimed


def keep_input(run_id: str, data: bytes, digest: bytes, fence: Fence, now: float) -> Script[None]:
    """Keep the run's input at its first start; the same input again is accepted.

    Raises:
        LostOwnership: the caller's lease is no longer the run's.
        RunInputMismatch: the run was started with other input.
    """
    run = yield from lock_run(run_id, {run_id: fence}, now)
    if run.input_digest is None:
        yield steps.SetInput(run_id, data, digest)
    elif run.input_digest != digest:
        raise RunInputMismatch(run_id)


def check_lease(run_id: str, fence: Fence, now: float) -> Script[None]:
    """Raise LostOwnership unless the lease is still the run's."""
    (row,) = yield steps.LockRun(run_id, now)
    run = LockedRun(*row)
    if (run.owner, run.token) != fence:
        raise LostOwnership(run_id, fence.owner, fence.token)


def _fail(run_id: str, run: LockedRun, now: float) -> Script[None]:
    if run.owner is not None:
        yield steps.EndLease(run_id, run.owner, run.token)
    yield steps.WriteRun(run_id, "failed", None, None, now)
