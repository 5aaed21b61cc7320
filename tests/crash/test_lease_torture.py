"""Workers that are stopped and killed at random never repeat a step and never write with a stale lease."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_handoff_kit import Relay
from tests.support.tortured_worker import STEPS

ROOT = Path(__file__).parents[2]
SECONDS = 10.0
WORKERS = 5
RUNS = 8


class Torture:
    """Five workers, one of which is always about to be stopped or killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "run.db"
        self.workers = [self.start() for _ in range(WORKERS)]
        self.kills = 0

    def start(self) -> subprocess.Popen[bytes]:
        module = "tests.support.tortured_worker"
        command = [sys.executable, "-m", module, str(self.database), str(RUNS), str(self.folder / "log")]
        return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def go_on_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for turn in itertools.count(1):
            if time.monotonic() > end:
                return
            number = random.randrange(WORKERS)
            if turn % 4 == 0:
                self.workers[number].kill()
                self.workers[number].wait()
                self.workers[number] = self.start()
                self.kills += 1
            else:
                self.workers[number].send_signal(signal.SIGSTOP)
                time.sleep(random.uniform(0.05, 0.7))
                self.workers[number].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()


@pytest.fixture
def torture(tmp_path: Path) -> Torture:
    return Torture(tmp_path)


def test_no_step_is_repeated_and_no_stale_lease_writes(torture: Torture) -> None:
    try:
        torture.go_on_for(SECONDS)
    finally:
        torture.stop()
    log = torture.folder / "log"
    refused = log.read_text().count("refused") if log.exists() else 0
    with Relay(torture.database) as relay:
        histories = [[one.context for one in relay.history(f"r{number}")] for number in range(RUNS)]
    steps = sum(map(len, histories))
    print(f"{steps} steps, {torture.kills} kills, {refused} stale writes refused")
    for history in histories:
        assert [context["step"] for context in history] == list(range(1, len(history) + 1))
        assert len(history) <= STEPS
        tokens = [context["token"] for context in history]
        assert tokens == sorted(tokens)
    assert steps >= 100
    assert torture.kills >= 2
    # Otherwise the torture was too mild to show anything.
    assert refused >= 1
