"""A signal at any moment of an operation leaves a store that works, and loses nothing acknowledged."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the platform has no interval timer")

COMMON = """
import itertools, random, signal, sys, threading
from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreBusy

path, shots = sys.argv[1], int(sys.argv[2])
relay = Relay(path, timeout=20)
left = hits = 0

def interrupt(number, frame):
    global left, hits
    while frame is not None and frame.f_code is not enclosed.__code__:
        frame = frame.f_back
    if left and frame is not None:
        left -= 1
        hits += 1
        if left:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00001, 0.0005))
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)

def enclosed(work):
    work()

def interrupted(work, longest):
    global left
    left = shots
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.000001, longest))
        enclosed(work)
    except KeyboardInterrupt:
        pass
    left = 0
    signal.setitimer(signal.ITIMER_REAL, 0)
"""

OPERATIONS = """
ended = threading.Event()
errors, written = [], [0, 0]
acknowledged, numbers = [], itertools.count()

def beside(worker):
    try:
        while not ended.is_set():
            relay.handoff(f"beside {worker}", "a", "b", {"n": written[worker]})
            written[worker] += 1
            relay.recover(f"beside {worker}")
    except BaseException as error:
        errors.append(error)

def write():
    number = next(numbers)
    relay.handoff("main", "a", "b", {"n": number}, op_id=f"op {number}")
    acknowledged.append(number)

def read():
    relay.recover("main")
    relay.history("main", limit=2)

threads = [threading.Thread(target=beside, args=(worker,)) for worker in range(int(sys.argv[3]))]
for thread in threads:
    thread.start()
for _ in range(1500):
    interrupted(write, 0.0006)
    interrupted(read, 0.0003)
ended.set()
for thread in threads:
    thread.join()
assert errors == [], errors
assert hits > 100, hits
stored = [one.context["n"] for one in relay.history("main")]
assert set(acknowledged) <= set(stored), set(acknowledged) - set(stored)
assert len(stored) == len(set(stored))
for worker in range(len(threads)):
    assert [one.context["n"] for one in relay.history(f"beside {worker}")] == list(range(written[worker]))
# Nothing is left locked, neither here nor for others.
with Relay(path, timeout=2) as other:
    other.handoff("after", "a", "b", {})
relay.handoff("after", "a", "b", {})
relay.close()
"""

NESTED = """
outcomes = {"done": 0, "busy": 0}

def handle(number, frame):
    global left
    try:
        relay.handoff("handler", "a", "b", {})
        relay.recover("handler")
        outcomes["done"] += 1
    except StoreBusy as error:
        assert "middle of another operation" in str(error), error
        outcomes["busy"] += 1
    signal.setitimer(signal.ITIMER_REAL, 0.0013)

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.001)
for number in range(1500):
    relay.handoff("main", "a", "b", {"n": number})
    relay.recover("main")
signal.signal(signal.SIGALRM, signal.SIG_IGN)
assert [one.context["n"] for one in relay.history("main")] == list(range(1500))
assert outcomes["busy"] > 0, outcomes
assert len(relay.history("handler")) >= outcomes["done"]
relay.close()
"""


def run(code: str, *arguments: object) -> None:
    command = [sys.executable, "-c", COMMON + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.parametrize("writers", [0, 2])
def test_interrupts_at_random_moments_leave_a_store_that_works(tmp_path: Path, shots: int, writers: int) -> None:
    run(OPERATIONS, tmp_path / "run.db", shots, writers)


def test_interrupts_leave_a_store_in_memory_that_works() -> None:
    code = OPERATIONS.replace('with Relay(path, timeout=2) as other:\n    other.handoff("after", "a", "b", {})\n', "")
    run(code, ":memory:", 1, 2)


def test_a_signal_handler_that_calls_inside_a_write_is_told_so_and_never_hangs(tmp_path: Path) -> None:
    run(NESTED, tmp_path / "run.db", 0)
