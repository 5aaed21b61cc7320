"""The calls that are running in this process, so that equal ones wait for them without asking the store."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from typing import NamedTuple

from agent_handoff_kit.store.call_scripts import CallKey


class OpenCall(NamedTuple):
    """A call that runs: its owner, the thread it began on, whether it is awaited, and the future of its end."""

    owner: str
    thread: int
    awaited: bool
    ended: Future[None]


class OpenCalls:
    """Keeps one running call for each key of each store."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin without calls, as a forked child does."""
        self._lock = threading.Lock()
        self._open: dict[tuple[str, CallKey], OpenCall] = {}

    def enter(self, store: str, key: CallKey, owner: str, *, awaited: bool) -> OpenCall | None:
        """Register a call; the running one if there is one already."""
        with self._lock:
            running = self._open.get((store, key))
            if running is None:
                self._open[store, key] = OpenCall(owner, threading.get_ident(), awaited, Future())
            return running

    def leave(self, store: str, key: CallKey) -> None:
        """Let those go on who wait for the call."""
        with self._lock:
            ended = self._open.pop((store, key), None)
        if ended is not None:
            ended.ended.set_result(None)

    def owners(self, store: str) -> frozenset[str]:
        """The owners of the calls that run on a store."""
        with self._lock:
            return frozenset(call.owner for (location, _), call in self._open.items() if location == store)


open_calls: OpenCalls = OpenCalls()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=open_calls.forget)
