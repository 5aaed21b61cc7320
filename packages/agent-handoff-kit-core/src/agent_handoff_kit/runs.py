"""Who works on what: the scope that takes a run's lease, and the run that the calling code is in."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import random
import socket
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from agent_handoff_kit.errors import HandoffKitError, LostOwnership, RunAlreadyCompleted, RunInProgress, StoreError
from agent_handoff_kit.heartbeat import heartbeat
from agent_handoff_kit.serialization import check_text
from agent_handoff_kit.store import CheckpointStore
from agent_handoff_kit.store.boot_clock import boot_time
from agent_handoff_kit.store.fences import Held, held
from agent_handoff_kit.store.leases import Claimant, Claimed, claim_lapsed, end_lease, end_leases_of, take_lease
from agent_handoff_kit.store.records import Fence
from agent_handoff_kit.store.requests import Plan, Write, perform
from agent_handoff_kit.store.steps import RenewLease

_logger = logging.getLogger(__name__)


class Run:
    """A run that is being worked on under a lease of this process.

    ``replaying`` tells whether what happens was recorded before and is only repeated from the journal.
    """

    def __init__(self, store: CheckpointStore, run_id: str, fence: Fence, ttl: float, taken_at: float) -> None:
        self.run_id: str = run_id
        self.owner: str = fence.owner
        self.token: int = fence.token
        self.ttl: float = ttl
        self.store: CheckpointStore = store
        self.replaying: bool = False
        self.ended: bool = False
        self._deadline = taken_at + ttl
        self._lost = False

    @property
    def fence(self) -> Fence:
        """What the run's row must still say for a write to pass."""
        return Fence(self.owner, self.token)

    @property
    def renewal(self) -> RenewLease:
        """The step that renews the lease; for the heartbeat."""
        return RenewLease(self.run_id, self.owner, self.token, self.ttl)

    def noted(self, *, held: bool, sent_at: float) -> None:
        """Note a renewal; for the heartbeat."""
        if held:
            self._deadline = sent_at + self.ttl
        else:
            self._lost = True

    def check(self) -> None:
        """Raise LostOwnership if the lease is lost, or may be: it was not renewed in time.

        The time counts from before the last renewal was sent, on this machine's own clock. Ask before an
        effect outside the store; writes to the store are checked there.
        """
        if self._lost or boot_time() > self._deadline:
            raise LostOwnership(self.run_id, self.owner, self.token)


_current: ContextVar[tuple[Run, int] | None] = ContextVar("agent_handoff_kit_run", default=None)


def current_run() -> Run | None:
    """The run whose scope the caller is in; None outside one and in a forked child."""
    current = _current.get()
    if current is None or current[1] != os.getpid() or current[0].ended:
        return None
    return current[0]


class RunScope:
    """Takes a run's lease on entry and frees it on every way out; for ``with`` and ``async with``.

    Inside the scope of the same run it takes nothing and gives the run being run.
    """

    def __init__(
        self, store: CheckpointStore, run_id: str, ttl: float, wait: float, claimed: Run | None = None
    ) -> None:
        self.run_id: str = check_text("run_id", run_id)
        self._store = store
        self._ttl = ttl
        self._wait = wait
        self._run = claimed
        self._claimed = claimed is not None
        self._owner: str | None = None
        self._pid = 0
        self._tokens: tuple[Token[Any], Token[Any]] | None = None

    def __enter__(self) -> Run:
        """Take the lease.

        Raises:
            RunAlreadyCompleted: the run is completed; carries its result.
            RunInProgress: another owner's lease is alive, and stayed so for ``wait`` seconds.
        """
        deadline = time.monotonic() + self._wait
        while True:
            try:
                with self._forsaking():
                    return self._entered(perform(self._store.backend, self._taken()))
            except RunInProgress as busy:
                time.sleep(_pause(busy, deadline))

    async def __aenter__(self) -> Run:
        """Take the lease without blocking the event loop."""
        from agent_handoff_kit.store import awaiting  # brings asyncio

        deadline = time.monotonic() + self._wait
        while True:
            try:
                with self._forsaking():
                    plan = self._taken()
                    return self._entered(await awaiting.perform_async(self._store.backend, plan, self._store.timeout))
            except RunInProgress as busy:
                await awaiting.sleep(_pause(busy, deadline))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._forsaking(), _lapsing_instead(self.run_id):
            plan = self._left()
            if plan is not None:
                perform(self._store.backend, plan)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from agent_handoff_kit.store import awaiting  # brings asyncio

        with self._forsaking(), _lapsing_instead(self.run_id):
            plan = self._left()
            if plan is not None:
                await awaiting.finish(self._store.backend, plan, self._store.timeout)

    def _taken(self) -> Plan[Run]:
        current = current_run()
        if self._run is not None:
            return self._run
        if current is not None and current.store is self._store and current.run_id == self.run_id:
            return current
        taken_at = boot_time()
        claimant = new_claimant(self._store, self._ttl)
        self._owner, self._pid = claimant.owner, os.getpid()
        try:
            token: int = yield Write(functools.partial(take_lease, self.run_id, claimant, time.time()))
        except RunAlreadyCompleted:
            result = yield from self._store.run_result(self.run_id)
            raise RunAlreadyCompleted(self.run_id, result) from None
        self._run = Run(self._store, self.run_id, Fence(claimant.owner, token), self._ttl, taken_at)
        return self._run

    def _entered(self, run: Run) -> Run:
        if run is self._run:
            if not self._claimed:
                heartbeat.add(run)
            self._pid = os.getpid()
            lease = Held(self._store.identity, run.run_id, run.fence, self._pid, run)
            self._tokens = (_current.set((run, self._pid)), held.set((*held.get(), lease)))
        return run

    def _left(self) -> Plan[None] | None:
        run, tokens = self._run, self._tokens
        if run is None or tokens is None:
            return None
        run.ended = True
        heartbeat.remove(run)
        # Left in another context, the scope's own one keeps the run; it is marked as ended.
        with contextlib.suppress(ValueError):
            _current.reset(tokens[0])
        with contextlib.suppress(ValueError):
            held.reset(tokens[1])
        self._run = self._tokens = None
        # A forked child that leaves its parent's scope has nothing to free.
        return _ended(run) if self._pid == os.getpid() else None

    @contextmanager
    def _forsaking(self) -> Generator[None, None, None]:
        """End the lease that an interrupted or cancelled caller may have got or kept, without waiting for it."""
        try:
            yield
        except HandoffKitError:
            raise
        except BaseException:
            self._forsake()
            raise

    def _forsake(self) -> None:
        if self._run is not None and not self._claimed:
            self._run.ended = True
            heartbeat.remove(self._run)
            self._run = None
        if self._owner is not None and self._pid == os.getpid():
            _end_later(self._store, self._owner)


def new_claimant(store: CheckpointStore, ttl: float) -> Claimant:
    """This process as the owner of one more lease."""
    owner = f"{store.backend.owner_name()}:{uuid.uuid4().hex[:12]}"
    return Claimant(owner, socket.gethostname(), os.getpid(), ttl)


def claim_orphans(store: CheckpointStore, limit: int, ttl: float) -> Plan[list[RunScope]]:
    """Plan: take over open runs whose owner is gone, at most ``limit``; each is a scope to enter."""
    taken_at = boot_time()
    claimants = [new_claimant(store, ttl) for _ in range(limit)]
    claimed: list[Claimed] = yield Write(functools.partial(claim_lapsed, claimants, time.time()))
    runs = [
        Run(store, one.run_id, Fence(claimant.owner, one.token), ttl, taken_at)
        for one, claimant in zip(claimed, claimants, strict=False)
    ]
    for run in runs:
        heartbeat.add(run)
    return [RunScope(store, run.run_id, ttl, 0.0, run) for run in runs]


def _ended(run: Run) -> Plan[None]:
    yield Write(functools.partial(end_lease, run.run_id, run.fence))


def _end_later(store: CheckpointStore, owner: str) -> None:
    # Queued behind the write that may have taken the lease.
    with contextlib.suppress(StoreError):
        store.backend.submit(functools.partial(end_leases_of, owner))


@contextmanager
def _lapsing_instead(run_id: str) -> Generator[None, None, None]:
    try:
        yield
    except StoreError:
        # What the scope's body returned or raised matters more, and the lease ends by its time.
        _logger.warning("the lease of run %s could not be freed; it lapses", run_id, exc_info=True)


def _pause(busy: RunInProgress, deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise busy
    return min(left, random.uniform(0.02, 0.1))
