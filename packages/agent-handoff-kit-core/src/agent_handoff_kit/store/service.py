"""The writer thread: it has its writer only while there is something to write.

So a store that nobody holds any more goes, and takes its thread and its file handles along.
"""

from __future__ import annotations

import threading
import time
import weakref
from queue import SimpleQueue
from typing import Protocol

_NAME = "agent-handoff-kit-writer"


class Draining(Protocol):
    """What the thread works for."""

    def drain(self) -> None: ...


class Resources(Protocol):
    """What is released when the one it worked for is gone."""

    def release(self) -> None: ...


Bell = SimpleQueue["Draining | None"]


class Service:
    """A thread that is started when it is first woken.

    Args:
        owner: whom it works for; held weakly.
        resources: released when the owner is gone without having been closed.
    """

    def __init__(self, owner: Draining, resources: Resources) -> None:
        self._resources = resources
        self._finalizer: weakref.finalize[[Bell, Resources], Draining] | None = None
        self.renew(owner)

    def renew(self, owner: Draining) -> None:
        """Begin without the thread, as a forked child does."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self._bell: Bell = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._finalizer = weakref.finalize(owner, _abandoned, self._bell, self._resources)
        # At the interpreter's end the process goes as if it were killed, which loses nothing.
        self._finalizer.atexit = False

    def wake(self, owner: Draining) -> bool:
        """Have the owner drained; it stays alive until then. False if no thread can be had."""
        self._bell.put(owner)
        if self._thread is not None and self._thread.is_alive():
            return True
        self._thread = threading.Thread(target=_serve, args=(self._bell,), name=_NAME, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            return False
        return True

    def stop(self, deadline: float) -> None:
        """End the thread; wait for that until the deadline."""
        self._bell.put(None)
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(max(deadline - time.monotonic(), 0.0))


def _serve(bell: Bell) -> None:
    while True:
        owner = bell.get()
        if owner is None:
            # Two that woke it at the same moment may have started two.
            bell.put(None)
            return
        owner.drain()
        del owner


def _abandoned(bell: Bell, resources: Resources) -> None:
    bell.put(None)
    resources.release()
