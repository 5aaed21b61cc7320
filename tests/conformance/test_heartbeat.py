"""The heartbeat of one store waits for no other store, and piles nothing up."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agent_handoff_kit import Relay

TTL = 1.5


@contextmanager
def side_lock(path: Path) -> Generator[None, None, None]:
    descriptor = os.open(f"{path}-lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def test_a_locked_store_lets_no_other_stores_lease_lapse(tmp_path: Path) -> None:
    locked, free = tmp_path / "locked.db", tmp_path / "free.db"
    with Relay(locked, lease_ttl=TTL) as one, Relay(free, lease_ttl=TTL) as other:
        first, second = one.run("r"), other.run("r")
        first.__enter__()
        run = second.__enter__()
        with side_lock(locked):
            for _ in range(30):
                time.sleep(TTL / 10)
                run.check()
            # Only one renewal waits, however many beats there were.
            assert one.store.backend.writer.queued() <= 1
        other.handoff("r", "a", "b", {})
        second.__exit__(None, None, None)
        first.__exit__(None, None, None)
