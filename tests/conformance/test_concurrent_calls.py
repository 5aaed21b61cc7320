"""Callers of one key at one time: one runs, the others wait for its result."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.at_most_once import call_tool
from agent_handoff_kit.errors import (
    CallInProgress,
    RunInProgress,
)
from agent_handoff_kit.idempotency import idempotent_tool
from agent_handoff_kit.store.requests import perform
from tests.support.charging import CALLER, DYING, charging, charging_later, lines


def test_eight_threads_make_one_effect(relay: Relay, ledger: Path) -> None:
    values: list[Any] = []

    def slow(order: str) -> str:
        time.sleep(0.2)
        with ledger.open("a") as file:
            file.write(f"{order}\n")
        return "charged"

    tool = idempotent_tool(relay, "r", key_fn=lambda order: order)(slow)
    threads = [threading.Thread(target=lambda: values.append(tool("O-1"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == ["charged"] * 8
    assert lines(ledger) == ["O-1"]


def test_five_tasks_make_one_effect(relay: Relay, ledger: Path) -> None:
    charge = charging_later(relay, ledger)

    async def scenario() -> list[str]:
        return list(await asyncio.gather(*[charge("O-1") for _ in range(5)]))

    assert asyncio.run(scenario()) == ["charged"] * 5
    assert lines(ledger) == ["O-1"]


def test_four_processes_make_one_effect(relay: Relay, path: str, ledger: Path) -> None:
    command = [sys.executable, "-c", CALLER, path, str(ledger)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in processes] == ["charged\n"] * 4
    assert lines(ledger) == ["O-1"]


def test_cancelling_one_waiter_leaves_the_others_waiting(relay: Relay, ledger: Path) -> None:
    charge = charging_later(relay, ledger, seconds=0.3)

    async def scenario() -> list[Any]:
        tasks = [asyncio.ensure_future(charge("O-1")) for _ in range(4)]
        await asyncio.sleep(0.1)
        tasks[2].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    values = asyncio.run(scenario())
    assert isinstance(values.pop(2), asyncio.CancelledError)
    assert values == ["charged"] * 3
    assert lines(ledger) == ["O-1"]


def test_the_owner_that_is_slow_is_waited_for_and_then_in_progress(relay: Relay, path: str, ledger: Path) -> None:
    command = [sys.executable, "-c", DYING, path, str(ledger), "SIGSTOP"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not lines(ledger):
        time.sleep(0.02)
    with pytest.raises(CallInProgress):
        charging(relay, ledger, wait=0.3)("O-1")
    process.send_signal(signal.SIGCONT)
    assert process.communicate()[0] == "charged\n"
    assert charging(relay, ledger)("O-1") == "charged"
    assert lines(ledger) == ["O-1"]


def test_a_clock_that_runs_ahead_ends_no_call(relay: Relay, path: str, ledger: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", CALLER.replace("0.3", "1.5"), path, str(ledger)])
    connection = sqlite3.connect(path)
    while not connection.execute("SELECT 1 FROM call").fetchone():
        time.sleep(0.02)
    connection.close()
    ahead = "import time; real = time.time; time.time = lambda: real() + 600\n" + CALLER
    other = subprocess.run([sys.executable, "-c", ahead, path, str(ledger)], capture_output=True, text=True, check=True)
    assert process.wait() == 0
    assert other.stdout == "charged\n"
    assert lines(ledger) == ["O-1"]


def test_a_call_that_would_wait_for_itself_raises_at_once(relay: Relay) -> None:
    def recursive(depth: int) -> int:
        return int(tool(depth))

    tool = idempotent_tool(relay, "r", key_fn=lambda depth: "k")(recursive)
    with pytest.raises(CallInProgress, match="itself"):
        tool(1)


def test_a_blocking_wait_for_the_loop_of_its_own_thread_raises_at_once(relay: Relay, ledger: Path) -> None:
    later = charging_later(relay, ledger, seconds=0.3)
    blocking = idempotent_tool(relay, "r", key_fn=lambda order: order, name="charge_now")(lambda order: order)

    async def scenario() -> None:
        running = asyncio.ensure_future(later("O-1"))
        await asyncio.sleep(0.1)
        with pytest.raises(CallInProgress, match="event loop"):
            same(later)("O-1")
        assert blocking("O-1") == "O-1"
        await running

    asyncio.run(scenario())


def same(later: Callable[..., Any]) -> Callable[..., Any]:
    """A blocking face of an awaited tool: the same store, run, key and tool."""

    cells = {
        name: cell.cell_contents for name, cell in zip(later.__code__.co_freevars, later.__closure__ or (), strict=True)
    }
    tool = cells["tool"]

    blocking = dataclasses.replace(tool, awaited=False)
    return lambda order: perform(tool.store.backend, call_tool(blocking, (order,), {}))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_between_start_and_end_leaves_the_call_with_the_parent(relay: Relay, ledger: Path) -> None:
    def forking(order: str) -> str:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                idempotent_tool(relay, "r", key_fn=lambda order: order, wait=0.2)(forking)(order)
            except CallInProgress:
                status = 0
            finally:
                os._exit(status)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return f"child ended with {code}"

    tool = idempotent_tool(relay, "r", key_fn=lambda order: order)(forking)
    assert [tool("O-1"), tool("O-1")] == ["child ended with 0", "child ended with 0"]


def test_a_call_on_a_run_of_another_owner_is_refused_before_it_runs(relay: Relay, path: str, ledger: Path) -> None:
    with Relay(path) as other:
        scope = other.run("r")
        thread = threading.Thread(target=lambda: scope.__enter__())
        thread.start()
        thread.join()
        with pytest.raises(RunInProgress):
            charging(relay, ledger)("O-1")
    assert lines(ledger) == []
