"""A run has one owner; a stale owner cannot write; a dead owner's run passes on."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_handoff_kit import HandoffStatus, Relay
from agent_handoff_kit.errors import LostOwnership, RunAlreadyCompleted, RunInProgress
from agent_handoff_kit.runs import current_run

HOLDER = """
import sys, time
from agent_handoff_kit import Relay
relay = Relay(sys.argv[1], lease_ttl=float(sys.argv[2]))
with relay.run("r"):
    relay.handoff("r", "a", "b", {"n": 1})
    print("held", flush=True)
    sys.stdin.readline()
    try:
        relay.handoff("r", "b", "c", {"n": 2})
        print("written", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@pytest.fixture
def relay(path: str) -> Iterator[Relay]:
    with Relay(path) as one:
        yield one


def hold(path: str, ttl: float = 30.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, path, str(ttl)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def outside_any_scope(attempt: Callable[[], object]) -> None:
    contextvars.Context().run(attempt)


def test_writes_inside_the_scope_pass_and_the_scope_ends_the_lease(relay: Relay) -> None:
    with relay.run("r") as run:
        assert current_run() is run
        run.check()
        relay.handoff("r", "a", "b", {"n": 1})
        checkpoint = relay.verify(relay.checkpoint("r", "b", "c", {"n": 2}))
        relay.store.update_status(checkpoint.checkpoint_id, HandoffStatus.RECOVERED)
        relay.store.set_run_status("r", "open")
    assert current_run() is None
    with relay.run("r") as again:
        assert again.token == run.token + 1


def test_another_owner_is_told_who_holds_the_run(relay: Relay, path: str) -> None:
    with Relay(path) as other, other.run("r"):
        with pytest.raises(RunInProgress) as caught:
            relay.run("r").__enter__()
        assert (caught.value.run_id, caught.value.pid) == ("r", os.getpid())
        assert caught.value.host and caught.value.retry_after and caught.value.owner


def test_writes_outside_a_scope_are_refused_while_a_run_is_owned(relay: Relay, path: str) -> None:
    checkpoint = relay.checkpoint("r", "a", "b", {})
    with Relay(path) as other, other.run("r"):
        attempts = (
            lambda: relay.handoff("r", "a", "b", {}),
            lambda: relay.verify(checkpoint),
            lambda: relay.complete("r", 1),
            lambda: relay.store.set_run_status("r", "completed"),
            lambda: relay.store.save(checkpoint),
        )
        for attempt in attempts:
            with pytest.raises(RunInProgress):
                outside_any_scope(attempt)
        assert relay.handoff("other", "a", "b", {}).seq == 1
    assert relay.handoff("r", "a", "b", {}).seq == 2


def test_two_tasks_of_one_process_do_not_share_a_run(relay: Relay) -> None:
    async def worker() -> str:
        try:
            async with relay.arun("r"):
                await asyncio.sleep(0.05)
                await relay.ahandoff("r", "a", "b", {})
                return "done"
        except RunInProgress:
            return "busy"

    async def scenario() -> list[str]:
        return sorted(await asyncio.gather(worker(), worker()))

    assert asyncio.run(scenario()) == ["busy", "done"]


def test_a_scope_inside_its_own_run_gives_the_run_being_run(relay: Relay) -> None:
    with relay.run("r") as outer:
        with relay.run("r") as inner:
            assert inner is outer
        relay.handoff("r", "a", "b", {})
        with relay.run("s") as other:
            assert current_run() is other
            relay.handoff("r", "a", "b", {})
            relay.handoff("s", "a", "b", {})
        assert current_run() is outer


def test_waiting_takes_the_run_when_it_is_freed(relay: Relay, path: str) -> None:
    async def scenario() -> None:
        with Relay(path) as other:
            async with other.arun("r"):
                waiting = asyncio.ensure_future(take())
                await asyncio.sleep(0.1)
                assert not waiting.done()
            await waiting

    async def take() -> None:
        async with relay.arun("r", wait=10):
            pass

    asyncio.run(scenario())


def test_the_lease_ends_when_the_body_fails(relay: Relay, path: str) -> None:
    with pytest.raises(TimeoutError), relay.run("r"):
        raise TimeoutError
    with Relay(path) as other, other.run("r"):
        pass


def test_a_completed_run_is_not_taken_and_hands_out_its_result(relay: Relay) -> None:
    with relay.run("r"):
        relay.complete("r", {"paid": 7})
    with pytest.raises(RunAlreadyCompleted) as caught, relay.run("r"):
        pass
    assert caught.value.result == {"paid": 7}


def test_a_killed_owner_frees_its_run_at_once(relay: Relay, path: str) -> None:
    process = hold(path)
    with pytest.raises(RunInProgress), relay.run("r"):
        pass
    end(process)
    with relay.run("r") as run:
        assert run.token == 2


def test_a_stopped_owner_loses_its_run_after_its_time_and_cannot_write_any_more(relay: Relay, path: str) -> None:
    process = hold(path, ttl=1.0)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(RunInProgress), relay.run("r"):
        pass
    with relay.run("r", wait=20):
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate("go\n")
    assert output == "LostOwnership\n"
    assert [one.context["n"] for one in relay.history("r")] == [1]


def test_a_silent_owner_keeps_its_run_by_its_heartbeat(path: str) -> None:
    with Relay(path, lease_ttl=0.6) as relay, Relay(path) as other, relay.run("r") as run:
        time.sleep(1.5)
        run.check()
        with pytest.raises(RunInProgress), other.run("r"):
            pass
        relay.handoff("r", "a", "b", {})


def test_an_owner_learns_that_its_lease_is_lost(path: str) -> None:
    with Relay(path, lease_ttl=0.3) as relay, relay.run("r") as run:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("UPDATE run SET owner = 'somebody', token = token + 1")
        connection.close()
        with pytest.raises(LostOwnership):
            relay.handoff("r", "a", "b", {})
        while True:
            try:
                run.check()
            except LostOwnership:
                break
            time.sleep(0.05)


def test_an_owner_of_an_earlier_start_of_the_machine_is_dead(relay: Relay, path: str) -> None:
    process = hold(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE run SET boot_id = 'before'")
    connection.close()
    with relay.run("r") as run:
        assert run.token == 2
    end(process)


def test_the_wall_clock_does_not_end_a_lease(relay: Relay, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Relay(path) as other, other.run("r"):
        monkeypatch.setattr("time.time", lambda: 4e9)
        with pytest.raises(RunInProgress), relay.run("r"):
            pass


def test_orphans_go_to_one_worker_each(relay: Relay, path: str) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", ORPHAN, path, f"r{n}"]) for n in range(4)]
    for process in processes:
        assert process.wait() == -signal.SIGKILL
    relay.handoff("never leased", "a", "b", {})
    with relay.run("released"):
        relay.handoff("released", "a", "b", {})
    with Relay(path) as other:
        mine, theirs = relay.claim_orphans(2), other.claim_orphans(10)
        assert len(mine) == 2
        assert sorted(one.run_id for one in [*mine, *theirs]) == ["r0", "r1", "r2", "r3"]
        for scope in mine:
            with scope as run:
                relay.handoff(run.run_id, "a", "b", {})
                relay.complete(run.run_id)
        for scope in theirs:
            with scope as run:
                other.handoff(run.run_id, "a", "b", {})
    assert relay.claim_orphans(10) == []


ORPHAN = """
import os, signal, sys
from agent_handoff_kit import Relay
Relay(sys.argv[1]).run(sys.argv[2]).__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""

CLAIMER = """
import os, signal, sys
from agent_handoff_kit import Relay
(scope,) = Relay(sys.argv[1]).claim_orphans(1)
scope.__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_takes_its_workers_down_becomes_failed(relay: Relay, path: str) -> None:
    for code in (ORPHAN, *[CLAIMER] * 5):
        assert subprocess.run([sys.executable, "-c", code, path, "r"], check=False).returncode == -signal.SIGKILL
    assert relay.claim_orphans(1) == []
    assert relay.run_status("r") == "failed"
    with relay.run("r"):
        assert relay.run_status("r") == "open"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_ownership_stays_with_the_parent_of_a_fork(relay: Relay) -> None:
    with relay.run("r") as run:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert current_run() is None
                relay.handoff("r", "a", "b", {})
            except RunInProgress:
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert current_run() is run
        relay.handoff("r", "a", "b", {})


def test_runs_in_memory_have_owners_too() -> None:
    with Relay(":memory:") as relay, Relay(":memory:") as other, relay.run("r"):
        relay.handoff("r", "a", "b", {})
        other.handoff("r", "a", "b", {})
        with other.run("r"):
            pass


def test_closing_leaves_no_owner_file(relay: Relay, path: str) -> None:
    with relay.run("r"):
        assert [one for one in os.listdir(os.path.dirname(path)) if "-owner-" in one]
    relay.close()
    assert not [one for one in os.listdir(os.path.dirname(path)) if "-owner-" in one]


@pytest.mark.parametrize("ttl", [0, -1])
def test_a_time_to_live_is_above_zero(path: str, ttl: float) -> None:
    with pytest.raises(ValueError, match="lease_ttl"):
        Relay(path, lease_ttl=ttl)
