"""The effect of a tool happens at most once per key, and what is not known is reported."""

from __future__ import annotations

import asyncio
import datetime
import functools
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import (
    CallInDoubt,
    CallInProgress,
    KeyConflict,
    LossyPayloadWarning,
    RunInProgress,
    RunMismatch,
)
from agent_handoff_kit.idempotency import Applied, Call, NotApplied, Unknown, current_call, idempotent_tool

DYING = """
import os, signal, sys
from agent_handoff_kit import Relay
from agent_handoff_kit.idempotency import idempotent_tool
relay = Relay(sys.argv[1])
def charge(order, amount=0):
    with open(sys.argv[2], "a") as ledger:
        ledger.write(order + "\\n")
    os.kill(os.getpid(), getattr(signal, sys.argv[3]))
    return "charged"
print(idempotent_tool(relay, "r", key_fn=lambda order, amount=0: order, wait=20)(charge)("O-1"))
"""

CALLER = """
import sys, time
from agent_handoff_kit import Relay
from agent_handoff_kit.idempotency import idempotent_tool
relay = Relay(sys.argv[1])
def charge(order, amount=0):
    time.sleep(0.3)
    with open(sys.argv[2], "a") as ledger:
        ledger.write(order + "\\n")
    return "charged"
print(idempotent_tool(relay, "r", key_fn=lambda order, amount=0: order)(charge)("O-1"))
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    file = tmp_path / "ledger"
    file.touch()
    return file


@pytest.fixture
def relay(path: str) -> Iterator[Relay]:
    with Relay(path) as one:
        yield one


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines()


def charging(relay: Relay, ledger: Path, result: Any = "charged", **options: Any) -> Callable[..., Any]:
    def charge(order: str, amount: int = 0) -> Any:
        with ledger.open("a") as file:
            file.write(f"{order}\n")
        if isinstance(result, BaseException):
            raise result
        return result

    return idempotent_tool(relay, "r", key_fn=lambda order, amount=0: order, **options)(charge)


def charging_later(relay: Relay, ledger: Path, seconds: float = 0.1, **options: Any) -> Callable[..., Any]:
    async def charge(order: str, amount: int = 0) -> str:
        await asyncio.sleep(seconds)
        with ledger.open("a") as file:
            file.write(f"{order}\n")
        return "charged"

    return idempotent_tool(relay, "r", key_fn=lambda order, amount=0: order, **options)(charge)


@dataclass
class Receipt:
    order: str
    amount: Decimal


@pytest.mark.parametrize("result", [None, False, 0, "", [], {}, 0.0, Decimal("10.50"), (1, {2}), b"\xff"])
def test_the_first_value_and_every_replay_are_equal(relay: Relay, ledger: Path, result: Any) -> None:
    charge = charging(relay, ledger, result)
    values = [charge("O-1"), charge("O-1")]
    assert values == [result, result]
    assert {type(value) for value in values} == {type(result)}
    assert lines(ledger) == ["O-1"]


def test_a_typed_result_comes_back_as_its_type(relay: Relay) -> None:
    def refund(order: str) -> Receipt:
        return Receipt(order, Decimal("5.00"))

    tool = idempotent_tool(relay, "r", key_fn=lambda order: order)(refund)
    other = idempotent_tool(relay, "r", key_fn=lambda order: order, name="listed", returns=list[Receipt])(
        lambda order: [refund(order)]
    )
    assert [tool("O-1"), tool("O-1")] == [Receipt("O-1", Decimal("5.00"))] * 2
    assert [other("O-1"), other("O-1")] == [[Receipt("O-1", Decimal("5.00"))]] * 2


def test_a_result_without_a_lossless_form_is_sanitised_for_both_callers(relay: Relay, ledger: Path) -> None:
    class Opaque:
        def __str__(self) -> str:
            return "opaque"

    charge = charging(relay, ledger, Opaque())
    with pytest.warns(LossyPayloadWarning):
        first = charge("O-1")
    assert [first, charge("O-1")] == ["opaque", "opaque"]


def test_one_key_with_other_arguments_is_a_conflict_and_runs_nothing(relay: Relay, ledger: Path) -> None:
    charge = charging(relay, ledger)
    charge("O-1", 500)
    with pytest.raises(KeyConflict):
        charge("O-1", 90000)
    assert charge("O-1", amount=500) == "charged"
    assert lines(ledger) == ["O-1"]


def test_defaults_and_ignored_arguments_do_not_tell_calls_apart(relay: Relay, ledger: Path) -> None:
    charge = charging(relay, ledger)
    charge("O-1")
    charge(order="O-1", amount=0)
    trace = idempotent_tool(relay, "r", key_fn=lambda order, trace: order, ignore=["trace"])(traced)
    assert [trace("O-2", "a"), trace("O-2", "b")] == ["O-2 a", "O-2 a"]
    assert lines(ledger) == ["O-1"]


def traced(order: str, trace: str) -> str:
    return f"{order} {trace}"


def test_arguments_without_a_lossless_form_are_left_out_with_a_warning(relay: Relay) -> None:
    tool = idempotent_tool(relay, "r", key_fn=lambda order, client: order)(lambda order, client: order)
    with pytest.warns(LossyPayloadWarning, match="client"):
        tool("O-1", object())
    with pytest.warns(LossyPayloadWarning, match="client"):
        tool("O-1", object())


def test_the_digest_of_arguments_is_the_same_in_every_process(relay: Relay, path: str) -> None:
    code = (
        "import sys; from agent_handoff_kit import Relay\n"
        "from agent_handoff_kit.idempotency import idempotent_tool\n"
        "with Relay(sys.argv[1]) as relay:\n"
        "    tool = idempotent_tool(relay, 'r', key_fn=lambda **kw: 'k', name='t')(lambda **kw: 1)\n"
        "    tool(a={'x', 'y', 'z'}, b={'k': 1, 'l': 2}, c=frozenset([1, 2, None]))\n"
    )
    for seed in ("1", "2", "3"):
        command = [sys.executable, "-c", code, path]
        done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_two_tools_and_two_runs_have_keys_of_their_own(relay: Relay) -> None:
    def ship(order: str) -> str:
        return "shipped"

    def invoice(order: str) -> str:
        return "invoiced"

    for run_id in ("r1", "r2"):
        made = [idempotent_tool(relay, run_id, key_fn=lambda order: order)(tool) for tool in (ship, invoice)]
        assert [tool("O-1") for tool in made] == ["shipped", "invoiced"]


def test_a_global_key_is_shared_by_all_runs(relay: Relay, ledger: Path) -> None:
    charge = charging(relay, ledger, scope="global")
    with relay.run("r1"):
        charge("O-1")
    with relay.run("r2"):
        charge("O-1")
    assert lines(ledger) == ["O-1"]


def test_two_equal_calls_that_are_both_meant_have_two_keys(relay: Relay, ledger: Path) -> None:
    numbers = iter(range(2))
    tool = idempotent_tool(relay, "r", key_fn=lambda order: f"{order}#{next(numbers)}", name="twice")
    charge = tool(lambda order: ledger.open("a").write("x\n") and None)
    with pytest.warns(ResourceWarning):
        charge("O-1")
        charge("O-1")
    assert lines(ledger) == ["x", "x"]


def test_the_run_may_be_the_one_being_run_and_no_other(relay: Relay) -> None:
    follows = idempotent_tool(relay, None, key_fn=lambda: "k", name="follows")(lambda: current_call())
    bound = idempotent_tool(relay, "r1", key_fn=lambda: "k", name="bound")(lambda: 1)
    chosen = idempotent_tool(relay, lambda order: f"run-{order}", key_fn=lambda order: "k", name="chosen")(
        lambda order: order
    )
    with pytest.raises(ValueError, match="outside a run"):
        follows()
    with relay.run("r2"):
        with pytest.raises(RunMismatch):
            bound()
        assert follows()["run_id"] == "r2"
    assert relay.store.get_tool_result("r1", "k") is None
    assert chosen("7") == "7"
    assert relay.store.get_tool_result("run-7", "k") == "7"


def test_a_tool_knows_its_call(relay: Relay) -> None:
    seen: list[Call | None] = []
    tool = idempotent_tool(relay, "r", key_fn=lambda order: f"pay:{order}", name="pay")(
        lambda order: seen.append(current_call())
    )
    tool("O-1")
    assert seen == [Call("r", "pay", "pay:O-1", 1, {"order": "O-1"})]
    assert current_call() is None


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


def test_a_dead_owner_leaves_its_call_in_doubt_and_it_is_not_run_again(relay: Relay, path: str, ledger: Path) -> None:
    die(path, ledger, "SIGKILL")
    charge = charging(relay, ledger)
    with pytest.raises(CallInDoubt):
        charge("O-1")
    with pytest.raises(CallInDoubt) as caught:
        charge("O-1")
    assert (caught.value.run_id, caught.value.tool, caught.value.key) == ("r", "charge", "O-1")
    assert lines(ledger) == ["O-1"]


def die(path: str, ledger: Path, signal_name: str) -> None:
    command = [sys.executable, "-c", DYING, path, str(ledger), signal_name]
    assert subprocess.run(command, check=False).returncode == -getattr(signal, signal_name)


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
    import warnings

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
    from agent_handoff_kit.at_most_once import call_tool
    from agent_handoff_kit.store.requests import perform

    cells = {
        name: cell.cell_contents for name, cell in zip(later.__code__.co_freevars, later.__closure__ or (), strict=True)
    }
    tool = cells["tool"]
    import dataclasses

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
    assert tool("O-1") in ("child ended with 0", "child ended with 1")
    assert tool("O-1") == tool("O-1")


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


def test_a_result_expires_in_a_global_key_only_after_it_ended(relay: Relay, path: str, ledger: Path) -> None:
    charge = charging(relay, ledger, scope="global", ttl=0.2)
    kept = charging(relay, ledger, ttl=0.2, name="kept")
    charge("O-1")
    charge("O-1")
    kept("O-1")
    time.sleep(0.3)
    charge("O-1")
    kept("O-1")
    assert len(lines(ledger)) == 3


def test_a_call_in_doubt_never_expires(relay: Relay, ledger: Path) -> None:
    charge = charging(relay, ledger, TimeoutError(), scope="global", ttl=0.05)
    with pytest.raises(TimeoutError):
        charge("O-1")
    time.sleep(0.1)
    with pytest.raises(CallInDoubt):
        charge("O-1")


def test_a_call_on_a_run_of_another_owner_is_refused_before_it_runs(relay: Relay, path: str, ledger: Path) -> None:
    with Relay(path) as other:
        scope = other.run("r")
        thread = threading.Thread(target=lambda: scope.__enter__())
        thread.start()
        thread.join()
        with pytest.raises(RunInProgress):
            charging(relay, ledger)("O-1")
    assert lines(ledger) == []


def test_every_kind_of_callable_is_a_tool_and_generators_are_refused(relay: Relay) -> None:
    class Tool:
        def method(self, order: str) -> str:
            return order

        def __call__(self, order: str) -> str:
            return order

    def generator(order: str) -> Iterator[str]:
        yield order

    async def later_generator(order: str) -> Any:
        yield order

    make = functools.partial(idempotent_tool, relay, "r")
    assert make(key_fn=lambda order: order)(Tool().method)("O-1") == "O-1"
    assert make(key_fn=lambda order: order, name="object")(Tool())("O-1") == "O-1"
    partial = functools.partial(traced, trace="t")
    assert make(key_fn=lambda order: order, name="partial")(partial)("O-1") == "O-1 t"
    with pytest.raises(TypeError, match="name="):
        make(key_fn=lambda order: order)(partial)
    for refused in (generator, later_generator):
        with pytest.raises(TypeError, match="generator"):
            make(key_fn=lambda order: order)(refused)


def test_two_tools_under_one_name_are_refused_at_decoration(relay: Relay) -> None:
    make = idempotent_tool(relay, "r", key_fn=lambda order: order, name="pay")
    make(traced)
    make(traced)
    with pytest.raises(ValueError, match="pay"):
        make(lambda order: order)


@pytest.mark.parametrize("options", [{"scope": "planet"}, {"on_in_doubt": "guess"}])
def test_unknown_options_are_refused_at_decoration(relay: Relay, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        idempotent_tool(relay, "r", key_fn=lambda: "k", **options)


def test_a_call_of_0_1_0_fits_any_arguments(relay: Relay) -> None:
    relay.store.save_tool_result("r", "O-1", "pay", datetime.date(2030, 1, 2))
    tool = idempotent_tool(relay, "r", key_fn=lambda order: order, name="pay")(lambda order: "paid again")
    assert tool("O-1") == datetime.date(2030, 1, 2)
