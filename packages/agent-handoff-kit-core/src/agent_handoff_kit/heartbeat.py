"""One thread per process that keeps all its leases alive, one transaction per store and beat."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Protocol

from agent_handoff_kit.errors import HandoffKitError
from agent_handoff_kit.store import CheckpointStore
from agent_handoff_kit.store.boot_clock import boot_time
from agent_handoff_kit.store.leases import renew
from agent_handoff_kit.store.steps import RenewCall, RenewLease

_logger = logging.getLogger(__name__)

_IDLE = 6.0  # seconds, as if a lease had this time to live

Sent = dict[CheckpointStore, "Future[list[bool]]"]


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
    """Renews what was added, three times within the shortest time to live.

    No lock is held, so that neither an interrupt of the main thread nor a signal handler in it can stop the
    beat: each change of the two dicts is one step.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin without leases and without the thread, as a forked child does."""
        self._beating: dict[int, Beating] = {}
        self._serving: dict[str, threading.Thread] = {}
        self._changed: SimpleQueue[None] = SimpleQueue()
        self._next = 0.0

    def add(self, lease: Beating) -> None:
        """Renew this lease until it is removed."""
        self._beating[id(lease)] = lease
        thread = self._serving.get("thread")
        if thread is None or not thread.is_alive():
            thread = threading.Thread(target=self._beat, name="agent-handoff-kit-heartbeat", daemon=True)
            self._serving["thread"] = thread
            thread.start()
        elif time.monotonic() + lease.renewal.ttl / 3 < self._next:
            self._changed.put(None)

    def remove(self, lease: Beating) -> None:
        """Let this lease go; the thread ends at its next beat if it was the last one."""
        self._beating.pop(id(lease), None)

    def _beat(self) -> None:
        last = time.monotonic()
        sent: Sent = {}
        while True:
            # Short calls come and go between two beats, and need no thread of their own.
            # While the pause is being found out, whoever adds a lease wakes this thread.
            self._next = math.inf
            self._next = last + self._pause()
            left = self._next - time.monotonic()
            if left > 0:
                with contextlib.suppress(Empty):
                    self._changed.get(timeout=left)
                continue
            if not self._is_needed():
                return
            last = time.monotonic()
            sent = self._renew_all(sent)

    def _is_needed(self) -> bool:
        me = threading.current_thread()
        if not self._beating:
            self._serving.pop("thread", None)
        # One that was added meanwhile may have seen this thread at work, or have started another.
        return bool(self._beating) and self._serving.setdefault("thread", me) is me

    def _pause(self) -> float:
        return min((one.renewal.ttl for one in list(self._beating.values())), default=_IDLE) / 3

    def _renew_all(self, sent: Sent) -> Sent:
        stores: dict[CheckpointStore, list[Beating]] = {}
        for lease in list(self._beating.values()):
            if lease.store.backend.closed:
                # A closed store has let go of its leases.
                self.remove(lease)
            else:
                stores.setdefault(lease.store, []).append(lease)
        # A store that is still at the last renewal is locked by somebody; the others do not wait for it.
        under_way = {store: future for store, future in sent.items() if not future.done()}
        return under_way | {store: _renew(store, leases) for store, leases in stores.items() if store not in under_way}


def _renew(store: CheckpointStore, leases: Sequence[Beating]) -> Future[list[bool]]:
    sent_at = boot_time()
    try:
        future = store.backend.submit(functools.partial(renew, [one.renewal for one in leases]))
    except HandoffKitError as error:
        # Closed a moment ago.
        future = Future[list[bool]]()
        future.set_exception(error)
    future.add_done_callback(functools.partial(_note, leases, sent_at))
    return future


def _note(leases: Sequence[Beating], sent_at: float, renewed: Future[list[bool]]) -> None:
    error = renewed.exception()
    if error is not None:
        # The next beat tries again; if none succeeds the leases lapse and their writes are refused.
        _logger.warning("renewing %d leases failed", len(leases), exc_info=error)
        return
    for lease, still in zip(leases, renewed.result(), strict=True):
        lease.noted(held=still, sent_at=sent_at)


heartbeat: Heartbeat = Heartbeat()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=heartbeat.forget)
