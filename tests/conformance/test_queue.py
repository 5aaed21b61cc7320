"""What waits in the queue is written once, alone in its failure, and never acknowledged before it is in the file."""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.store import scripts
from agent_handoff_kit.store.logs import LogHeads, Snapshot
from agent_handoff_kit.store.records import EMPTY_CHAIN, LogHead
from agent_handoff_kit.store.steps import Script, WriteRun


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@contextmanager
def side_lock(path: str) -> Generator[None, None, None]:
    descriptor = os.open(f"{path}-lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def opening(run_id: str, fault: Exception | None = None) -> Script[str]:
    yield WriteRun(run_id, "open", None, None, 0.0)
    if fault is not None:
        raise fault
    return run_id


def test_an_operation_that_fails_takes_back_its_own_writes_and_no_others(path: str) -> None:
    with Relay(path) as relay:
        faults = (None, ValueError("late"), None)
        with side_lock(path):
            queued = [
                relay.store.backend.submit(functools.partial(opening, f"r{number}", fault))
                for number, fault in enumerate(faults)
            ]
        assert [queued[0].result(), queued[2].result()] == ["r0", "r2"]
        with pytest.raises(ValueError, match="late"):
            queued[1].result()
        assert [relay.run_status(f"r{number}") for number in range(3)] == ["open", None, "open"]


def test_closing_writes_what_is_queued(path: str) -> None:
    relay = Relay(path)
    with side_lock(path):
        queued = [relay.store.backend.submit(functools.partial(opening, f"r{number}")) for number in range(5)]
    relay.close()
    assert all(one.done() for one in queued)
    with Relay(path) as again:
        assert [again.run_status(f"r{number}") for number in range(5)] == ["open"] * 5


FULL_BATCH = """
import fcntl, os, resource, signal, sys, threading
from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
relay = Relay(sys.argv[1])
relay.handoff("warm", "a", "b", {})
holder = os.open(sys.argv[1] + "-lock", os.O_RDWR)
fcntl.flock(holder, fcntl.LOCK_EX)
def work(number):
    try:
        relay.handoff(f"r{number}", "a", "b", {"text": "x" * 200_000})
        os.write(1, f"acknowledged r{number}\\n".encode())
    except StoreError:
        os.write(1, f"refused r{number}\\n".encode())
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
while relay.store.backend.writer.queued() < 4:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
fcntl.flock(holder, fcntl.LOCK_UN)
for thread in threads:
    thread.join()
os._exit(0)
"""


def test_a_batch_that_finds_the_disk_full_acknowledges_nothing_that_is_not_in_the_file(path: str) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_BATCH, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert sorted(run_id for _, run_id in lines) == ["r0", "r1", "r2", "r3"], done.stderr
    with Relay(path) as relay:
        for outcome, run_id in lines:
            assert (relay.recover(run_id) is not None) == (outcome == "acknowledged")
        assert relay.recover("warm") is not None


def test_the_write_ahead_log_is_taken_into_the_file_as_it_grows(path: str) -> None:
    with Relay(path) as relay:
        for number in range(60):
            relay.handoff("r", "a", "b", {"n": number, "text": "x" * 500_000})
        assert os.stat(f"{path}-wal").st_size < 12 * 2**20
        assert os.stat(path).st_size > 20 * 2**20


def test_only_the_latest_log_ends_are_remembered_and_large_lists_are_not_kept() -> None:
    heads = LogHeads()
    head = LogHead(1, 1, EMPTY_CHAIN)
    for number in range(200):
        heads.put(f"r{number}", head, Snapshot(b"snapshot", 8))
        heads.put("used often", head, Snapshot(b"x" * (9 * 2**20 if number == 199 else 1), 1))
    known = [number for number in range(200) if heads.get(f"r{number}") != (None, None)]
    assert known == list(range(200 - len(known), 200)) and len(known) < 200
    assert heads.get("used often") == (head, None)


def test_a_status_set_on_the_callers_word_is_read_by_everyone(path: str) -> None:
    with Relay(path) as relay, Relay(path) as other:
        relay.store.backend.write(functools.partial(scripts.set_run_status, "r", "open", fences={}, now=0.0))
        assert other.run_status("r") == "open"
