"""A lease ends with the scope it was taken for, whichever way the scope is entered or left."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import RunInProgress
from agent_handoff_kit.runs import current_run
from agent_handoff_kit.store.steps import Script, WriteRun


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@pytest.fixture
def relay(path: str) -> Iterator[Relay]:
    with Relay(path) as one:
        yield one


def is_free(relay: Relay, run_id: str) -> bool:
    """Whether a run can be taken once everything queued is written."""
    relay.store.backend.submit(_nothing).result()
    try:
        with relay.run(run_id):
            return True
    except RunInProgress:
        return False


def _nothing() -> Script[None]:
    yield WriteRun("other", "open", None, None, 0.0)


@pytest.mark.parametrize("steps", range(8))
def test_a_task_cancelled_while_it_enters_leaves_the_run_free(relay: Relay, steps: int) -> None:
    async def enter() -> None:
        async with relay.arun("r"):
            await asyncio.sleep(3600)

    async def scenario() -> None:
        task = asyncio.ensure_future(enter())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for _ in range(10):
        asyncio.run(scenario())
        assert is_free(relay, "r")


def test_a_task_cancelled_twice_while_it_enters_leaves_the_run_free(relay: Relay) -> None:
    async def scenario() -> None:
        for steps in range(8):
            task = asyncio.ensure_future(relay.arun("r").__aenter__())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(outcome, asyncio.CancelledError):
                assert await asyncio.to_thread(is_free, relay, "r")
                return
        raise AssertionError("no task was cancelled in time")

    asyncio.run(scenario())


INTERRUPTED = """
import random, signal, sys
from agent_handoff_kit import Relay
from agent_handoff_kit.errors import RunInProgress
relay = Relay(sys.argv[1])
hits = 0

def interrupt(number, frame):
    global hits
    while frame is not None and frame.f_code is not enclosed.__code__:
        frame = frame.f_back
    if frame is not None:
        hits += 1
        raise KeyboardInterrupt

def enclosed():
    with relay.run("r"):
        relay.handoff("r", "a", "b", {})

signal.signal(signal.SIGALRM, interrupt)
busy = 0
for number in range(1000):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.000001, 0.002))
        enclosed()
    except KeyboardInterrupt:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        with relay.run("r", wait=5):
            pass
    except RunInProgress:
        busy += 1
assert hits > 50, hits
assert busy == 0, busy
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the platform has no interval timer")
def test_an_interrupted_scope_leaves_the_run_free(path: str) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FORKED = """
import os, sys
from agent_handoff_kit import Relay
relay, parent = Relay(sys.argv[1]), os.getpid()

def fork_and_unwind():
    child = os.fork()
    if child == 0:
        raise SystemExit
    os.waitpid(child, 0)
    with Relay(sys.argv[1]) as other:
        print(len(other.claim_orphans()), flush=True)

try:
    with relay.run("r"):
        fork_and_unwind()
        relay.handoff("r", "a", "b", {})
finally:
    if os.getpid() != parent:
        os._exit(0)
print("written")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_that_unwinds_the_scope_leaves_the_parents_lease(path: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORKED, path], capture_output=True, text=True, check=False)
    assert done.stdout == "0\nwritten\n", done.stderr


def test_a_scope_left_in_another_context_ends_its_lease(relay: Relay) -> None:
    entered, left = contextvars.copy_context(), contextvars.copy_context()
    scope = relay.run("r")
    entered.run(scope.__enter__)
    left.run(scope.__exit__, None, None, None)
    assert is_free(relay, "r")
    # The context it was entered in does not go on with a lease that has ended.
    assert entered.run(current_run) is None
    assert entered.run(relay.handoff, "r", "a", "b", {}).seq == 1


def test_an_awaitable_scope_left_in_another_context_ends_its_lease(relay: Relay) -> None:
    async def holding() -> AsyncGenerator[None, None]:
        async with relay.arun("r"):
            yield

    async def scenario() -> None:
        generator = holding()
        await asyncio.ensure_future(anext(generator))
        await asyncio.ensure_future(generator.aclose())

    asyncio.run(scenario())
    assert is_free(relay, "r")
