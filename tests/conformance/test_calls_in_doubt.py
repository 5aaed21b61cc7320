"""What is not known of a call is reported, and settled only on somebody's word."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.arguments import digest_of
from agent_handoff_kit.errors import (
    CallInDoubt,
)
from agent_handoff_kit.idempotency import Applied, Call, NotApplied, Unknown, idempotent_tool
from agent_handoff_kit.store.call_scripts import CallClaim, CallKey, claim_call, forsake_call
from tests.support.charging import DYING, charging, charging_later, die, lines

IS_RECORDED = "SELECT 1 FROM call WHERE key = ?"


def test_a_dead_owner_leaves_its_call_in_doubt_and_it_is_not_run_again(relay: Relay, path: str, ledger: Path) -> None:
    die(path, ledger, "SIGKILL")
    charge = charging(relay, ledger)
    with pytest.raises(CallInDoubt):
        charge("O-1")
    with pytest.raises(CallInDoubt) as caught:
        charge("O-1")
    assert (caught.value.run_id, caught.value.tool, caught.value.key) == ("r", "charge", "O-1")
    assert lines(ledger) == ["O-1"]


def test_a_call_in_doubt_is_run_again_where_that_is_declared(relay: Relay, path: str, ledger: Path) -> None:
    die(path, ledger, "SIGKILL")
    assert charging(relay, ledger, on_in_doubt="retry")("O-1") == "charged"
    assert lines(ledger) == ["O-1", "O-1"]


@pytest.mark.parametrize(
    "word, value, effects",
    [
        (Applied("looked up"), "looked up", 1),
        (NotApplied, "charged", 2),
        (NotApplied("never arrived"), "charged", 2),
    ],
)
def test_a_reconciler_decides_about_a_call_in_doubt(
    relay: Relay, path: str, ledger: Path, word: Any, value: str, effects: int
) -> None:
    die(path, ledger, "SIGKILL")
    asked: list[Call] = []

    def reconcile(call: Call) -> Any:
        asked.append(call)
        return word

    charge = charging(relay, ledger, on_in_doubt=reconcile)
    assert [charge("O-1"), charge("O-1")] == [value, value]
    assert [(one.key, one.attempt, one.arguments) for one in asked] == [("O-1", 2, {"order": "O-1", "amount": 0})]
    assert len(lines(ledger)) == effects


@pytest.mark.parametrize("word", [Unknown, Unknown("the bank is closed"), "yes", None])
def test_a_reconciler_that_cannot_tell_leaves_the_call_in_doubt(
    relay: Relay, path: str, ledger: Path, word: Any
) -> None:
    die(path, ledger, "SIGKILL")
    for _ in range(2):
        with pytest.raises(CallInDoubt):
            charging(relay, ledger, on_in_doubt=lambda call: word)("O-1")
    assert lines(ledger) == ["O-1"]


def test_a_reconciler_that_fails_leaves_the_call_in_doubt(relay: Relay, path: str, ledger: Path) -> None:
    die(path, ledger, "SIGKILL")

    def reconcile(call: Call) -> Any:
        raise ConnectionError("the bank is closed")

    with pytest.raises(ConnectionError):
        charging(relay, ledger, on_in_doubt=reconcile)("O-1")
    with pytest.raises(CallInDoubt, match="bank is closed"):
        charging(relay, ledger)("O-1")


def test_an_awaited_tool_may_have_an_awaited_reconciler(relay: Relay, path: str, ledger: Path) -> None:
    die(path, ledger, "SIGKILL")

    async def reconcile(call: Call) -> Any:
        await asyncio.sleep(0)
        return Applied("looked up")

    charge = charging_later(relay, ledger, on_in_doubt=reconcile)
    assert asyncio.run(charge("O-1")) == "looked up"


@pytest.mark.parametrize("error", [TimeoutError("no answer"), KeyboardInterrupt()])
def test_an_exception_leaves_the_call_in_doubt(relay: Relay, ledger: Path, error: BaseException) -> None:
    charge = charging(relay, ledger, error)
    with pytest.raises(type(error)):
        charge("O-1")
    with pytest.raises(CallInDoubt, match=type(error).__name__):
        charge("O-1")
    assert lines(ledger) == ["O-1"]


@pytest.mark.parametrize("error", [NotApplied("refused"), ConnectionRefusedError("no line")])
def test_an_exception_that_says_nothing_happened_frees_the_key(relay: Relay, ledger: Path, error: Exception) -> None:
    charge = charging(relay, ledger, error, not_applied=[ConnectionRefusedError])
    for _ in range(2):
        with pytest.raises(type(error)):
            charge("O-1")
    assert len(lines(ledger)) == 2


def test_a_cancelled_call_is_in_doubt(relay: Relay, ledger: Path) -> None:
    charge = charging_later(relay, ledger, seconds=5)

    async def scenario() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(charge("O-1"), 0.2)
        with pytest.raises(CallInDoubt):
            await charge("O-1")

    asyncio.run(scenario())


def test_a_result_that_cannot_be_stored_is_not_run_again(relay: Relay, ledger: Path) -> None:
    class Unwritable:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    charge = charging(relay, ledger, {"h": Unwritable()}, on_in_doubt="retry")
    for _ in range(2):
        with pytest.raises(CallInDoubt, match="it ran, and its result was not kept"):
            with_warnings_allowed(charge)
    assert lines(ledger) == ["O-1"]


def with_warnings_allowed(charge: Callable[..., Any]) -> None:

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        charge("O-1")


FULL = """
import resource, signal, sys
from agent_handoff_kit import Relay
from agent_handoff_kit.errors import CallInDoubt
from agent_handoff_kit.idempotency import idempotent_tool
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
relay = Relay(sys.argv[1])
def charge(order):
    print("effect")
    resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, resource.RLIM_INFINITY))
    return "x" * 200_000
tool = idempotent_tool(relay, "r", key_fn=lambda order: order, on_in_doubt="retry")(charge)
for attempt in range(2):
    try:
        tool("O-1")
    except CallInDoubt as error:
        print(error.reason)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_a_result_that_the_disk_does_not_take_is_not_run_again(path: str) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("effect") == 1
    assert done.stdout.count("it ran, and its result was not kept") == 2


def test_a_stopped_owner_counts_as_gone_after_its_time(path: str, ledger: Path) -> None:
    code = DYING.replace("Relay(sys.argv[1])", "Relay(sys.argv[1], lease_ttl=0.5)")
    process = subprocess.Popen([sys.executable, "-c", code, path, str(ledger), "SIGSTOP"], stdout=subprocess.PIPE)
    with Relay(path, lease_ttl=0.5) as relay:
        while not lines(ledger):
            time.sleep(0.02)
        with pytest.raises(CallInDoubt):
            charging(relay, ledger)("O-1")
    process.kill()
    process.communicate()


def test_an_operator_settles_a_call_in_doubt(relay: Relay, path: str, ledger: Path) -> None:
    charge = charging(relay, ledger, TimeoutError())
    for order in ("O-1", "O-2"):
        with pytest.raises(TimeoutError):
            charge(order)
    relay.store.resolve_call("r", "O-1", applied=True, result="found at the bank")
    relay.store.resolve_call("r", "O-2", tool="charge", applied=False)
    assert charge("O-1") == "found at the bank"
    with pytest.raises(TimeoutError):
        charge("O-2")
    with pytest.raises(ValueError, match="completed"):
        relay.store.resolve_call("r", "O-1", applied=False)
    with pytest.raises(LookupError):
        relay.store.resolve_call("r", "unknown", applied=False)
    relay.store.save_tool_result("r", "O-1", "other", 1)
    with pytest.raises(LookupError, match="other"):
        relay.store.resolve_call("r", "O-1", applied=False)


def test_a_call_in_doubt_never_expires(relay: Relay, ledger: Path) -> None:
    charge = charging(relay, ledger, TimeoutError(), scope="global", ttl=0.05)
    with pytest.raises(TimeoutError):
        charge("O-1")
    time.sleep(0.1)
    with pytest.raises(CallInDoubt):
        charge("O-1")


def test_a_call_that_is_cancelled_before_its_tool_ran_is_free(relay: Relay, path: str) -> None:
    begun: list[str] = []

    async def charge_later(order: str) -> str:
        begun.append(order)
        return "charged"

    charge = idempotent_tool(relay, "r", key_fn=lambda order: order)(charge_later)

    async def is_cancelled_while_it_is_recorded(order: str) -> bool:
        task = asyncio.ensure_future(charge(order))
        await asyncio.sleep(random.uniform(0, 0.002))
        task.cancel()
        await asyncio.wait([task])
        return order not in begun and bool(connection.execute(IS_RECORDED, (order,)).fetchone())

    async def scenario() -> None:
        hits = 0
        for number in range(2000):
            if await is_cancelled_while_it_is_recorded(f"O-{number}"):
                hits += 1
                assert await charge(f"O-{number}") == "charged"
            if hits == 5:
                break
        assert hits

    with contextlib.closing(sqlite3.connect(path)) as connection:
        asyncio.run(scenario())
    assert len(begun) == len(set(begun))


@pytest.mark.parametrize("policy, effects", [("raise", 0), ("retry", 1)])
def test_a_call_in_doubt_whose_next_caller_is_cancelled_is_in_doubt_again(
    relay: Relay, path: str, ledger: Path, policy: str, effects: int
) -> None:
    die(path, ledger, "SIGKILL")
    same = digest_of({"order": "O-1", "amount": 0}, (), "charge")
    claim = CallClaim(CallKey("r", "O-1", "charge"), same, "another:1", 30.0, (), "retry", None)
    relay.store.backend.write(functools.partial(claim_call, claim, fences={}, now=0.0))
    relay.store.backend.write(functools.partial(forsake_call, claim, now=0.0))
    with pytest.raises(CallInDoubt) if policy == "raise" else contextlib.nullcontext():
        charging(relay, ledger, on_in_doubt=policy)("O-1")
    assert len(lines(ledger)) == 1 + effects


@pytest.mark.filterwarnings("error")
def test_a_warning_about_a_result_that_is_an_error_does_not_let_the_tool_run_again(relay: Relay, ledger: Path) -> None:
    charge = charging(relay, ledger, {"h": object()}, on_in_doubt="retry")
    for _ in range(2):
        with pytest.raises(CallInDoubt, match="it ran, and its result was not kept"):
            charge("O-1")
    assert lines(ledger) == ["O-1"]


async def effect_of(ledger: Path, order: str) -> str:
    with ledger.open("a") as file:
        file.write(f"{order}\n")
    return order


def a_generator(ledger: Path, order: str) -> Iterator[str]:
    with ledger.open("a") as file:
        file.write(f"{order}\n")
    yield order


@pytest.mark.parametrize("body", [effect_of, a_generator])
def test_a_tool_that_returns_what_has_not_run_is_refused_and_its_key_is_free(
    relay: Relay, ledger: Path, body: Callable[..., Any]
) -> None:
    make = idempotent_tool(relay, "r", key_fn=lambda order: order, name="charge")
    returning = make(lambda order: body(ledger, order))
    with pytest.raises(TypeError, match="async def"):
        returning("O-1")
    assert lines(ledger) == []
    assert charging(relay, ledger, name="charged")("O-1") == "charged"
    with pytest.raises(TypeError, match="async def"):
        returning("O-1")


def test_a_tool_that_returns_what_is_running_already_is_refused_and_in_doubt(relay: Relay, ledger: Path) -> None:
    make = idempotent_tool(relay, "r", key_fn=lambda order: order)

    async def scenario() -> None:
        @make
        def charge(order: str) -> Any:
            return asyncio.ensure_future(effect_of(ledger, order))

        with pytest.raises(TypeError, match="an awaitable"):
            charge("O-1")
        with pytest.raises(CallInDoubt):
            charge("O-1")

    asyncio.run(scenario())
