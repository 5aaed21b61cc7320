"""Tool calls at most once, as scripts: claim, end, settle.

A call is *started* before its effect, durably. It ends *completed* with its result, *free* when the tool says
that nothing happened, *in_doubt* when nobody can tell, or *unkept* when it ran and its result cannot be stored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from agent_handoff_kit.errors import KeyConflict
from agent_handoff_kit.store import steps
from agent_handoff_kit.store.leases import lock_run
from agent_handoff_kit.store.records import CallRow, LockedRun
from agent_handoff_kit.store.scripts import Fences
from agent_handoff_kit.store.steps import Script

ENDED_EARLY = "its owner ended before the outcome was recorded"


class CallKey(NamedTuple):
    """Names a call: the run (empty for a global one), the key and the tool."""

    run_id: str
    key: str
    tool: str


class CallClaim(NamedTuple):
    """Who asks to run a call, with which arguments.

    ``here`` holds the owners that are running calls in this process; a call of this process that is not
    among them is not running any more. ``policy`` is what to do with a call in doubt: ``raise``, ``retry`` or
    ``reconcile``.
    """

    call: CallKey
    args_digest: bytes | None
    owner: str
    ttl: float
    here: Collection[str]
    policy: str
    expired_before: float | None


class Answer(NamedTuple):
    """What a claim found: ``run`` and ``ask`` (ours now), ``replay``, ``wait``, ``doubt`` or ``unkept``."""

    kind: str
    row: CallRow | None
    attempt: int = 0


def look_up(claim: CallClaim) -> Script[Answer | None]:
    """The recorded result of a call, without writing; None when it takes a claim to tell.

    Raises:
        KeyConflict: the key was used with other arguments.
    """
    row = yield from _read(claim.call)
    if row is None or row.status != "completed" or claim.expired_before is not None:
        return None
    _require_same_arguments(claim, row)
    return Answer("replay", row)


def claim_call(claim: CallClaim, *, fences: Fences, now: float) -> Script[Answer]:
    """Start the call for the claimant if it may run, else tell what is known of it.

    Raises:
        KeyConflict: the key was used with other arguments; nothing is written.
        LostOwnership, RunInProgress: the caller may not write to the run.
    """
    finished_run = False
    if claim.call.run_id:
        run = yield from lock_run(claim.call.run_id, fences, now)
        finished_run = run.status == "completed"
    row = yield from _read(claim.call)
    if row is None:
        return (yield from _start(claim, "run", 1, now))
    _require_same_arguments(claim, row)
    if row.status == "completed":
        if not _expired(claim, row, finished_run):
            return Answer("replay", row)
        return (yield from _start(claim, "run", row.attempt + 1, now))
    if row.status == "free":
        return (yield from _start(claim, "run", row.attempt + 1, now))
    if row.status == "started" and row.owner == claim.owner:
        return Answer(row.error or "run", row, row.attempt)
    if row.status == "started" and _is_running(claim, row):
        return Answer("wait", row)
    if claim.policy == "reconcile":
        return (yield from _start(claim, "ask", row.attempt + 1, now))
    if row.status == "unkept":
        return Answer("unkept", row)
    if claim.policy == "retry":
        return (yield from _start(claim, "run", row.attempt + 1, now))
    if row.status == "started":
        yield steps.EndCall(*claim.call, row.owner, "in_doubt", None, None, ENDED_EARLY, now)
        return Answer("doubt", row._replace(error=ENDED_EARLY))
    return Answer("doubt", row)


def forsake_call(claim: CallClaim, *, now: float) -> Script[None]:
    """Let go of a call whose claimant ended before it ran the tool.

    One that may have run under an earlier owner is in doubt again.
    """
    row = yield from _read(claim.call)
    if row is None or row.status != "started" or row.owner != claim.owner:
        return
    fresh = row.attempt == 1 or claim.policy == "raise"
    reason = "its caller was cancelled before it ran" if fresh else ENDED_EARLY
    yield steps.EndCall(*claim.call, claim.owner, "free" if fresh else "in_doubt", None, None, reason, now)


def end_call(
    call: CallKey, owner: str, status: str, result: bytes | None, digest: bytes | None, error: str | None, *, now: float
) -> Script[bool]:
    """End a call that the owner started; False if it is no longer the owner's.

    The call's own owner decides, not the run's lease: the outcome of an effect is worth keeping even if the run
    passed on meanwhile, and nobody else starts the call while its owner is alive.
    """
    rows = yield steps.EndCall(*call, owner, status, result, digest, error, now)
    return bool(rows)


def complete_call(
    call: CallKey,
    owner: str,
    result: bytes,
    digest: bytes,
    records: Sequence[steps.PutRecord],
    *,
    fences: Fences,
    now: float,
) -> Script[bool]:
    """End a call with its result, and keep journal records with it while their run is the caller's; as ``end_call``."""
    mine = False
    if records:
        # The run's row first, as in a claim: two orders of locks would meet in a deadlock.
        (row,) = yield steps.LockRun(records[0].run_id, now)
        run = LockedRun(*row)
        mine = fences.get(records[0].run_id) == (run.owner, run.token)
    held = yield from end_call(call, owner, "completed", result, digest, None, now=now)
    for record in records if held and mine else ():  # noqa: UP028 - a list cannot be sent the rows
        yield record
    return held


def settle_call(
    call: CallKey, status: str, result: bytes | None, digest: bytes | None, *, fences: Fences, now: float
) -> Script[str | None]:
    """Settle a call on an operator's word; the state it had, None if there is no such call.

    A completed call, and one that is running, stay as they are.
    """
    if call.run_id:
        yield from lock_run(call.run_id, fences, now)
    row = yield from _read(call)
    if row is None:
        return None
    if row.status == "started" and row.alive:
        return "running"
    if row.status != "completed":
        yield steps.EndCall(*call, None, status, result, digest, None, now)
    return row.status


def find_calls(run_id: str, key: str, tool: str | None) -> Script[list[CallRow]]:
    """The calls of a key, the oldest first."""
    rows = yield steps.ReadCalls(run_id, key, tool)
    return [CallRow(*row) for row in rows]


def _read(call: CallKey) -> Script[CallRow | None]:
    rows = yield steps.ReadCalls(*call)
    return CallRow(*rows[0]) if rows else None


def _start(claim: CallClaim, kind: str, attempt: int, now: float) -> Script[Answer]:
    # A claim that is repeated after a lost acknowledgement finds its own kind in the row.
    yield steps.StartCall(*claim.call, claim.args_digest, attempt, claim.owner, kind, claim.ttl, now)
    return Answer(kind, None, attempt)


def _is_running(claim: CallClaim, row: CallRow) -> bool:
    if row.owner is None or not row.alive:
        return False
    same_process = row.owner.partition(":")[0] == claim.owner.partition(":")[0]
    return row.owner in claim.here if same_process else True


def _expired(claim: CallClaim, row: CallRow, finished_run: bool) -> bool:
    if claim.expired_before is None or row.finished_at is None:
        return False
    return row.finished_at < claim.expired_before and (finished_run or not claim.call.run_id)


def _require_same_arguments(claim: CallClaim, row: CallRow) -> None:
    if row.args_digest is not None and row.args_digest != claim.args_digest:
        raise KeyConflict(claim.call.run_id, claim.call.key)
