"""Stories of effects that happened twice, or of which nothing was kept."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Pipeline, Relay, Step
from agent_handoff_kit.errors import CallInDoubt, KeyConflict, RunInProgress
from agent_handoff_kit.idempotency import idempotent_tool
from tests.support.charging import CALLER, charging, charging_later, die, lines

CHAIN = """
import os, signal, sys, time
from agent_handoff_kit import Pipeline, Relay, Step
from agent_handoff_kit.idempotency import idempotent_tool

relay = Relay(sys.argv[1])

def effect(name):
    def tool(order):
        with open(sys.argv[2], "a") as ledger:
            ledger.write(f"{name} {order}\\n")
        time.sleep(float(sys.argv[4]))
        return name
    tool.__name__ = name
    return idempotent_tool(relay, None, key_fn=lambda order: order)(tool)

charge, close = effect("charge"), effect("close")

def closer(context):
    answer = close(context["order"])
    if sys.argv[3] == "dies":
        # All is done, and nothing says so yet.
        os.kill(os.getpid(), signal.SIGKILL)
    return answer

steps = [
    Step("triage", lambda context: context),
    Step("resolver", lambda context: {**context, "charged": charge(context["order"])}),
    Step("closer", closer, ["charged"]),
]
try:
    print(Pipeline(relay, steps).run("r", {"order": "O-1"}))
except Exception as error:
    print(type(error).__name__)
"""


def chain(path: str, ledger: Path, how: str, seconds: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHAIN, path, str(ledger), how, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_crash_after_the_last_agent_finished_repeats_no_effect(path: str, ledger: Path) -> None:
    dying = chain(path, ledger, "dies")
    dying.communicate()
    assert dying.returncode == -signal.SIGKILL
    for _ in range(2):
        assert chain(path, ledger, "lives").communicate()[0] == "close\n"
    assert lines(ledger) == ["charge O-1", "close O-1"]


@pytest.mark.parametrize("started_before", [False, True])
def test_of_two_workers_that_take_one_run_at_once_one_works(path: str, ledger: Path, started_before: bool) -> None:
    if started_before:
        chain(path, ledger, "dies").communicate()
    workers = [chain(path, ledger, "lives", seconds=0.5) for _ in range(2)]
    answers = sorted(worker.communicate()[0].strip() for worker in workers)
    assert answers[1] == "close" and answers[0] in ("RunInProgress", "close")
    assert lines(ledger) == ["charge O-1", "close O-1"]


def test_of_two_threads_that_take_one_run_at_once_one_works(relay: Relay) -> None:
    inside, leave = threading.Event(), threading.Event()
    done: list[str] = []

    def resolver(context: dict[str, Any]) -> str:
        inside.set()
        assert leave.wait(60)
        done.append("refund")
        return "refund"

    pipeline = Pipeline(relay, [Step("resolver", resolver)])
    worker = threading.Thread(target=lambda: pipeline.run("r", {}))
    worker.start()
    assert inside.wait(60)
    with pytest.raises(RunInProgress):
        pipeline.run("r", {})
    leave.set()
    worker.join()
    assert pipeline.run("r", {}) == "refund"
    assert done == ["refund"]


def test_a_tool_that_returns_none_is_remembered(relay: Relay) -> None:
    sent: list[str] = []
    send = idempotent_tool(relay, "r", key_fn=lambda to: f"mail:{to}", name="send")(sent.append)
    assert send("a") is None and send("a") is None
    assert sent == ["a"]


def test_one_key_with_another_request_is_a_conflict_and_nothing_is_run(relay: Relay, ledger: Path) -> None:
    refund = charging(relay, ledger)
    assert refund("O-7", 500) == "charged"
    with pytest.raises(KeyConflict):
        refund("O-7", 90000)
    assert lines(ledger) == ["O-7"]


def test_one_key_in_two_tools_is_two_calls(relay: Relay) -> None:
    make = idempotent_tool
    ship = make(relay, "r", key_fn=lambda order: order, name="ship")(lambda order: "shipped")
    invoice = make(relay, "r", key_fn=lambda order: order, name="invoice")(lambda order: "invoiced")
    for _ in range(2):
        assert (ship("O-1"), invoice("O-1")) == ("shipped", "invoiced")


def from_threads(relay: Relay, path: str, ledger: Path) -> list[Any]:
    charge = charging(relay, ledger)
    values: list[Any] = []
    threads = [threading.Thread(target=lambda: values.append(charge("O-1"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return values


def from_tasks(relay: Relay, path: str, ledger: Path) -> list[Any]:
    charge = charging_later(relay, ledger)

    async def all_at_once() -> list[Any]:
        return list(await asyncio.gather(*[charge("O-1") for _ in range(5)]))

    return asyncio.run(all_at_once())


def from_processes(relay: Relay, path: str, ledger: Path) -> list[Any]:
    command = [sys.executable, "-c", CALLER, path, str(ledger)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return [process.communicate()[0].strip() for process in processes]


@pytest.mark.parametrize("callers", [from_threads, from_tasks, from_processes])
def test_identical_calls_at_one_moment_are_one_effect_and_all_get_its_result(
    relay: Relay, path: str, ledger: Path, callers: Callable[..., list[Any]]
) -> None:
    assert set(callers(relay, path, ledger)) == {"charged"}
    assert lines(ledger) == ["O-1"]


def test_killed_between_doing_and_recording_it_is_reported_and_not_done_again(
    relay: Relay, path: str, ledger: Path
) -> None:
    die(path, ledger, "SIGKILL")
    with pytest.raises(CallInDoubt, match="O-1"):
        charging(relay, ledger)("O-1")
    assert lines(ledger) == ["O-1"]


def test_an_effect_whose_result_cannot_be_stored_is_not_repeated(relay: Relay, ledger: Path) -> None:
    class Untold:
        def __str__(self) -> str:
            raise ValueError("no text")

    charge = charging(relay, ledger, {"h": Untold()})
    for _ in range(2):
        with pytest.raises(CallInDoubt, match="its result was not kept"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            charge("O-1")
    assert lines(ledger) == ["O-1"]
