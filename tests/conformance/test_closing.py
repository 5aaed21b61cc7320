"""Closing ends in time, disturbs nobody, and a store that was dropped without it leaves nothing behind."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreBusy, StoreError
from agent_handoff_kit.store import scripts

READ_AND_CLOSE = """
import sys, threading
from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreError
for round in range(10):
    relay = Relay(sys.argv[1])
    relay.handoff("r", "a", "b", {"text": "x" * 200_000})
    begin = threading.Barrier(5)
    def read():
        begin.wait()
        try:
            while True:
                relay.history("r")
        except StoreError as error:
            assert "closed" in str(error), error
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    begin.wait()
    relay.close()
    for thread in threads:
        thread.join()
print("closed")
"""
HOLD = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1] + "-lock", os.O_RDWR), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@contextmanager
def locked_by_another_process(path: str) -> Generator[None, None, None]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline().strip() == b"held"
        yield
        holder.stdin.close()


def test_closing_beside_reads_ends_them_by_name(path: str) -> None:
    done = subprocess.run([sys.executable, "-c", READ_AND_CLOSE, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr


def test_closing_a_locked_file_ends_after_the_timeout_and_fails_what_is_queued(path: str) -> None:
    relay = Relay(path, timeout=0.3)
    with locked_by_another_process(path):
        opening = functools.partial(scripts.set_run_status, "r", "open", fences={}, now=0.0)
        queued = [relay.store.backend.submit(opening) for _ in range(3)]
        relay.close()
        for one in queued:
            with pytest.raises(StoreBusy, match=r"run\.db"):
                one.result(timeout=10)
    with Relay(path) as again:
        assert again.run_status("r") is None


def test_a_closed_store_refuses_everything_by_name(path: str) -> None:
    relay = Relay(path)
    relay.close()
    relay.close()
    attempts: list[Callable[[], object]] = [
        lambda: relay.handoff("r", "a", "b", {}),
        lambda: relay.recover("r"),
        relay.compact,
    ]
    for attempt in attempts:
        with pytest.raises(StoreError, match="closed"):
            attempt()


def test_closing_from_inside_an_operation_is_refused_and_works_afterwards(path: str) -> None:
    relay = Relay(path)
    refused: list[BaseException] = []

    def close(_: object) -> None:
        try:
            relay.close()
        except StoreBusy as error:
            refused.append(error)

    opening = functools.partial(scripts.set_run_status, "r", "open", fences={}, now=0.0)
    with locked_by_another_process(path):
        future = relay.store.backend.submit(opening)
        future.add_done_callback(close)
    future.result()
    assert relay.run_status("r") == "open"
    relay.close()
    assert len(refused) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors by /proc")
def test_relays_dropped_without_closing_leave_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    def use(number: int) -> None:
        relay = Relay(tmp_path / f"{number}.db")
        relay.store.backend.submit(functools.partial(scripts.set_run_status, "r", "open", fences={}, now=0.0)).result()
        with relay.run("r"):
            relay.handoff("r", "a", "b", {})
        relay.store.backend.submit_read(functools.partial(scripts.read_run, "r")).result()

    def held() -> tuple[set[threading.Thread], int]:
        gc.collect()
        # Threads on their way out are waited for; one that stays is seen.
        for thread in threading.enumerate():
            if thread.name.startswith("agent-handoff-kit") and "heartbeat" not in thread.name:
                thread.join(timeout=5)
        kept = {one for one in threading.enumerate() if "heartbeat" not in one.name}
        return kept, len(os.listdir("/proc/self/fd"))

    use(0)
    before = held()
    for number in range(1, 200):
        use(number)
    assert held() == before
    assert not [one for one in os.listdir(tmp_path) if "-owner-" in one]


def test_what_was_queued_is_written_even_if_its_relay_is_dropped(path: str) -> None:
    relay = Relay(path)
    with locked_by_another_process(path):
        opening = functools.partial(scripts.set_run_status, "r", "open", fences={}, now=0.0)
        future = relay.store.backend.submit(opening)
        del relay
        gc.collect()
    future.result()
    with Relay(path) as again:
        assert again.run_status("r") == "open"
