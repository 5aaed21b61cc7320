"""Acknowledged handoffs survive forks, kills and crowded first opens."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_handoff_kit import Relay

WRITER = """
import os, sys, threading
from agent_handoff_kit import Relay
path, name = sys.argv[1:3]
relay = Relay(path)
def work(thread):
    for number in range(1_000_000):
        relay.handoff(f"{name}-{thread}", "a", "b", {"n": number})
        os.write(1, f"{name}-{thread} {number}\\n".encode())
for thread in range(16):
    threading.Thread(target=work, args=(thread,)).start()
"""

OPENER = """
import sys
from agent_handoff_kit import Relay
for number in range(15):
    with Relay(f"{sys.argv[1]}.{number}") as relay:
        relay.handoff(sys.argv[2], "a", "b", {"n": number})
"""


def start(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)


def first_lines(process: subprocess.Popen[bytes], count: int) -> bytes:
    assert process.stdout is not None
    return b"".join(process.stdout.readline() for _ in range(count))


def test_nothing_acknowledged_is_lost_when_writers_are_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "run.db")
    acknowledged: dict[str, int] = {}
    kills = 0
    for attempt in range(10):
        writers = [start(WRITER, path, f"w{attempt}{n}") for n in range(4)]
        # However slow the machine is, all are at work before the first one dies.
        begun = [first_lines(writer, 4) for writer in writers]
        time.sleep(random.uniform(0.0, 0.4))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        for writer, told in zip(writers, begun, strict=True):
            output, _ = writer.communicate()
            kills += writer.returncode == -signal.SIGKILL
            for line in (told + output).decode().splitlines():
                run_id, count = line.split()
                acknowledged[run_id] = int(count)
    assert kills == 40
    assert len(acknowledged) >= 100
    with Relay(path) as relay:
        for run_id, number in acknowledged.items():
            stored = [one.context["n"] for one in relay.history(run_id)]
            assert stored[: number + 1] == list(range(number + 1))
            assert len(stored) <= number + 2
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()


def test_many_processes_may_open_one_fresh_file_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "fresh.db")
    openers = [start(OPENER, path, f"r{n}") for n in range(16)]
    for opener in openers:
        opener.communicate()
    assert [opener.returncode for opener in openers] == [0] * 16
    with Relay(f"{path}.14") as relay:
        assert all(relay.recover(f"r{n}") is not None for n in range(16))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_keeps_its_commits_when_the_parent_closes(tmp_path: Path) -> None:
    path = str(tmp_path / "run.db")
    relay = Relay(path)
    relay.handoff("parent", "a", "b", {})
    closed_read, closed_write = os.pipe()
    done_read, done_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(closed_read, 1)
        for number in range(60):
            relay.handoff("child", "a", "b", {"n": number})
        os.write(done_write, b"x")
        signal.pause()
    relay.close()
    os.write(closed_write, b"x")
    os.read(done_read, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for descriptor in (closed_read, closed_write, done_read, done_write):
        os.close(descriptor)
    with Relay(path) as again:
        assert len(again.history("child")) == 60
