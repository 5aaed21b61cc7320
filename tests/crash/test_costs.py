"""What a handoff costs, counted: syncs, bytes in the write-ahead log, bytes in the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_handoff_kit import Relay, make_handoff_envelope
from tests.support import disk

BEGIN = """
import ctypes, fcntl, json, os, sys, threading
from agent_handoff_kit import Relay, make_handoff_envelope
path = sys.argv[1]
syncs = ctypes.CDLL(None).sync_calls
relay = Relay(path)
relay.handoff("warm", "a", "b", {})
context = {"text": "x" * 1000}
before = syncs()
def many(count, begin=None):
    def work(number):
        if begin is not None:
            begin.wait()
        relay.handoff(f"t{number}", "a", "b", context)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return disk.build(tmp_path_factory.mktemp("shim"))


def counted(shim: Path, path: Path, code: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code + "\nprint(json.dumps(syncs() - before))", str(path)],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout))


def test_a_handoff_is_one_sync(shim: Path, tmp_path: Path) -> None:
    code = "for number in range(50):\n    relay.handoff('r', 'a', 'b', context, ['text'])"
    assert counted(shim, tmp_path / "run.db", code) == 50


def test_an_awaited_handoff_is_one_sync(shim: Path, tmp_path: Path) -> None:
    code = "import asyncio\nfor number in range(20):\n    asyncio.run(relay.ahandoff('r', 'a', 'b', context))"
    assert counted(shim, tmp_path / "run.db", code) == 20


def test_a_tools_first_call_is_two_syncs_and_a_replay_none(shim: Path, tmp_path: Path) -> None:
    code = """
from agent_handoff_kit.idempotency import idempotent_tool
tool = idempotent_tool(relay, "r", key_fn=lambda order: order, name="pay")(lambda order: order)
for number in range(20):
    tool(f"O-{number % 10}")
"""
    assert counted(shim, tmp_path / "run.db", code) == 20


def test_taking_and_freeing_a_run_is_two_syncs(shim: Path, tmp_path: Path) -> None:
    code = "for number in range(10):\n    with relay.run('r'):\n        pass"
    assert counted(shim, tmp_path / "run.db", code) == 20


def test_threads_released_at_a_barrier_share_syncs(shim: Path, tmp_path: Path) -> None:
    code = "for thread in many(64, threading.Barrier(64)):\n    thread.join()"
    assert counted(shim, tmp_path / "run.db", code) <= 16


def test_handoffs_queued_behind_the_side_lock_share_two_syncs(shim: Path, tmp_path: Path) -> None:
    code = """
import time
holder = os.open(path + "-lock", os.O_RDWR)
fcntl.flock(holder, fcntl.LOCK_EX)
threads = many(64)
while relay.store.backend.writer.queued() < 64:
    time.sleep(0.01)
fcntl.flock(holder, fcntl.LOCK_UN)
for thread in threads:
    thread.join()
"""
    assert counted(shim, tmp_path / "run.db", code) <= 2


@pytest.mark.parametrize("messages, limit", [(0, 20 * 1024), (4, 28 * 1024)])
def test_a_handoff_writes_little_to_the_log(tmp_path: Path, messages: int, limit: int) -> None:
    path = tmp_path / "run.db"
    history: list[str] = []
    with Relay(path) as relay:
        relay.handoff("warm", "a", "b", {})
        before = os.stat(f"{path}-wal").st_size
        for _ in range(50):
            history += ["m" * 500] * messages
            state = {"text": "x" * 1000}
            context = make_handoff_envelope(state, from_agent="a", to_agent="b", messages=history)
            relay.handoff("r", "a", "b", context if messages else state)
        assert (os.stat(f"{path}-wal").st_size - before) / 50 <= limit


def test_a_file_grows_with_the_history_and_not_with_its_square(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    history: list[dict[str, str]] = []
    with Relay(path) as relay:
        for number in range(1000):
            history += [{"role": "user", "content": f"{number}.{part} " + "x" * 440} for part in range(4)]
            context = make_handoff_envelope({}, from_agent="a", to_agent="b", messages=history)
            relay.handoff("r", "a", "b", context)
        found = relay.recover("r")
        assert found is not None and found.context["messages"] == history
    assert path.stat().st_size <= 1.3 * len(json.dumps(history))
