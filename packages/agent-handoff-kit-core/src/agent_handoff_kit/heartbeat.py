"""One thread per process that keeps all its leases alive, one transaction per store and beat."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from agent_handoff_kit.errors import HandoffKitError

_logger = logging.getLogger(__name__)


class Beating(Protocol):
    """A lease that wants to be renewed."""

    @property
    def ttl(self) -> float:
        """Seconds that a renewal holds."""
        ...

    @property
    def group(self) -> object:
        """What is renewed together: the store."""
        ...

    def renew_all(self, leases: Sequence[Any]) -> None:
        """Renew leases of this group, this one among them."""
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
        """Let this lease go; the thread ends with the last one."""
        with self._changed:
            self._beating = [one for one in self._beating if one is not lease]
            if not self._beating:
                self._changed.notify()

    def _beat(self) -> None:
        while True:
            with self._changed:
                if not self._beating:
                    self._thread = None
                    return
                self._changed.wait(min(one.ttl for one in self._beating) / 3)
                beating = list(self._beating)
            for group in {id(one.group) for one in beating}:
                _renew([one for one in beating if id(one.group) == group])


def _renew(together: Sequence[Beating]) -> None:
    try:
        together[0].renew_all(together)
    except HandoffKitError:
        # The next beat tries again; if none succeeds the leases lapse and their writes are refused.
        _logger.warning("renewing %d leases failed", len(together), exc_info=True)


heartbeat = Heartbeat()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=heartbeat.forget)
