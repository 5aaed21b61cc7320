"""One thread per process that keeps all its leases alive, one transaction per store and beat."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from agent_handoff_kit.errors import HandoffKitError
from agent_handoff_kit.store import CheckpointStore
from agent_handoff_kit.store.boot_clock import boot_time
from agent_handoff_kit.store.leases import renew
from agent_handoff_kit.store.steps import RenewCall, RenewLease

_logger = logging.getLogger(__name__)


class Beating(Protocol):
    """A lease that wants to be renewed."""

    @property
    def store(self) -> CheckpointStore:
        """Where the lease is kept."""
        ...

    @property
    def renewal(self) -> RenewLease | RenewCall:
        """The step that renews it."""
        ...

    def noted(self, *, held: bool, sent_at: float) -> None:
        """Told after each renewal whether the lease is still held, and when the renewal was sent."""
        ...


class Heartbeat:
    """Renews what was added, three times within the shortest time to live."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin without leases and without the thread, as a forked child does."""
        self._changed = threading.Condition()
        self._beating: list[Beating] = []
        self._thread: threading.Thread | None = None

    def add(self, lease: Beating) -> None:
        """Renew this lease until it is removed."""
        with self._changed:
            self._beating.append(lease)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="agent-handoff-kit-heartbeat", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, lease: Beating) -> None:
        """Let this lease go; the thread ends some time after the last one."""
        with self._changed:
            self._beating = [one for one in self._beating if one is not lease]

    def _pause(self) -> float:
        return min(one.renewal.ttl for one in self._beating) / 3

    def _beat(self) -> None:
        last = time.monotonic()
        while True:
            with self._changed:
                # A new lease may be due earlier than those before it, so it wakes the wait.
                while self._beating and (left := last + self._pause() - time.monotonic()) > 0:
                    self._changed.wait(left)
                if not self._beating:
                    self._thread = None
                    return
                # A closed store has let go of its leases.
                beating = self._beating = [one for one in self._beating if not one.store.backend.closed]
            last = time.monotonic()
            for store in {id(one.store) for one in beating}:
                _renew([one for one in beating if id(one.store) == store])


def _renew(leases: Sequence[Beating]) -> None:
    sent_at = boot_time()
    try:
        held = leases[0].store.backend.write(functools.partial(renew, [one.renewal for one in leases]))
    except HandoffKitError:
        # The next beat tries again; if none succeeds the leases lapse and their writes are refused.
        _logger.warning("renewing %d leases failed", len(leases), exc_info=True)
        return
    for lease, still in zip(leases, held, strict=True):
        lease.noted(held=still, sent_at=sent_at)


heartbeat: Heartbeat = Heartbeat()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=heartbeat.forget)
