"""A file that another process has locked stops neither the event loop nor the caller's own limit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreBusy

HOLDERS = {
    "database": (
        "import sqlite3, sys\n"
        "holder = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "holder.execute('BEGIN EXCLUSIVE')\n"
    ),
    "side lock": ("import fcntl, os, sys\nfcntl.flock(os.open(sys.argv[1] + '-lock', os.O_RDWR), fcntl.LOCK_EX)\n"),
}
HOLD = "print('held', flush=True)\nsys.stdin.read()\n"


class Holder:
    """Another process that has the file locked until it is told to let go."""

    def __init__(self, code: str, path: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, "-c", code + HOLD, path], stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == b"held"

    def let_go(self) -> None:
        if self._process.poll() is None:
            self._process.communicate()


@pytest.fixture
def relay(path: str) -> Iterator[Relay]:
    with Relay(path) as one:
        yield one


@pytest.fixture(params=HOLDERS)
def holder(request: pytest.FixtureRequest, relay: Relay, path: str) -> Iterator[Holder]:
    one = Holder(HOLDERS[request.param], path)
    yield one
    one.let_go()


def guarded(relay: Relay) -> Any:
    @relay.guarded_handoff("r", "a", "b", ["n"])
    async def resolver(context: dict[str, Any]) -> int:
        return int(context["n"])

    return resolver


def test_the_loop_runs_on_while_a_handoff_waits_for_another_process(relay: Relay, holder: Holder) -> None:
    async def scenario() -> int:
        waiting = asyncio.ensure_future(guarded(relay)({"n": 7}))
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert not waiting.done()
        # Only a loop that runs on gets here and frees the lock for which the handoff waits.
        holder.let_go()
        return int(await waiting)

    assert asyncio.run(scenario()) == 7
    assert [one.context for one in relay.history("r")] == [{"n": 7}]


def test_the_callers_limit_holds_while_the_file_is_locked_and_the_handoff_works_afterwards(
    relay: Relay, holder: Holder
) -> None:
    async def scenario() -> int:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(guarded(relay)({"n": 1}), 0.2)
        holder.let_go()
        return int(await guarded(relay)({"n": 2}))

    assert asyncio.run(scenario()) == 2
    assert [one.context for one in relay.history("r")] == [{"n": 2}]


def test_a_blocking_handoff_waits_for_another_process_and_then_works(relay: Relay, holder: Holder) -> None:
    thread = threading.Thread(target=relay.handoff, args=("r", "a", "b", {"n": 1}))
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    holder.let_go()
    thread.join()
    assert [one.context for one in relay.history("r")] == [{"n": 1}]


def test_a_locked_file_can_be_recovered_from(relay: Relay, holder: Holder, path: str) -> None:
    assert relay.recover("r") is None
    assert asyncio.run(relay.ahistory("r")) == []


@pytest.mark.parametrize("awaitable", [False, True])
@pytest.mark.parametrize("lock", HOLDERS)
def test_after_its_timeout_a_locked_file_is_busy_by_name_and_nothing_is_written(
    path: str, lock: str, awaitable: bool
) -> None:
    with Relay(path, timeout=0.2) as relay:
        holder = Holder(HOLDERS[lock], path)
        with pytest.raises(StoreBusy, match=r"run\.db"):
            if awaitable:
                asyncio.run(relay.ahandoff("r", "a", "b", {"n": 1}))
            else:
                relay.handoff("r", "a", "b", {"n": 1})
        holder.let_go()
        assert relay.handoff("r", "a", "b", {"n": 2}).seq == 1
