"""The leases that the calling code works under, so that its writes carry them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from agent_handoff_kit.errors import LostOwnership, RunInProgress
from agent_handoff_kit.store.records import Fence, LockedRun


class Scope(Protocol):
    """What a lease is held for."""

    @property
    def ended(self) -> bool:
        """Whether it was left, perhaps in another context than it was entered in."""
        ...


class Held(NamedTuple):
    """A lease that the calling code holds on one database, in this process."""

    location: str
    run_id: str
    fence: Fence
    process_id: int
    scope: Scope


held: ContextVar[tuple[Held, ...]] = ContextVar("agent_handoff_kit_held", default=())


def fences_on(location: str) -> Mapping[str, Fence]:
    """The caller's fences on a database, by run; a forked child has none."""
    return {
        one.run_id: one.fence
        for one in held.get()
        if one.location == location and one.process_id == os.getpid() and not one.scope.ended
    }


def require_right(run_id: str, run: LockedRun, fence: Fence | None) -> None:
    """Let a write to the run pass, or raise.

    Raises:
        LostOwnership: the caller's lease is no longer the run's.
        RunInProgress: the caller has no lease, and another owner's is alive.
    """
    if fence is not None:
        if (run.owner, run.token) != fence:
            raise LostOwnership(run_id, fence.owner, fence.token)
    elif run.alive and run.owner is not None:
        raise RunInProgress(run_id, run.owner, run.host, run.pid, run.retry_after)
