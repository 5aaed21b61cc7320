"""The effect of a tool happens at most once per key, and every caller gets its result."""

from __future__ import annotations

import datetime
import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import (
    KeyConflict,
    LossyPayloadWarning,
    RunMismatch,
)
from agent_handoff_kit.idempotency import Call, current_call, idempotent_tool
from tests.support.charging import charging, lines


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


def test_annotations_that_cannot_be_resolved_do_not_matter(relay: Relay) -> None:
    def only_for_checkers(order: Unseen) -> Unseen:  # type: ignore[name-defined]  # noqa: F821
        return order

    def beside_one(order: Unseen) -> Receipt:  # type: ignore[name-defined]  # noqa: F821
        return Receipt(order, Decimal(1))

    def broken(order: str) -> 1 / 0:  # type: ignore[valid-type]
        return order

    make = functools.partial(idempotent_tool, relay, "r", key_fn=lambda order: order)
    assert [make()(only_for_checkers)("O-1") for _ in range(2)] == ["O-1", "O-1"]
    assert [make()(beside_one)("O-1") for _ in range(2)] == [Receipt("O-1", Decimal(1))] * 2
    assert [make()(broken)("O-1") for _ in range(2)] == ["O-1", "O-1"]


@pytest.mark.parametrize("run_id", ["r", lambda desk, order: "r", None])
def test_a_method_is_a_tool_where_its_class_is_defined_and_its_object_tells_no_calls_apart(
    relay: Relay, run_id: Any
) -> None:
    done: list[str] = []

    class Till:
        @idempotent_tool(relay, run_id, key_fn=lambda till, order: order)
        def charge(self, order: str) -> str:
            done.append(order)
            return f"charged {order}"

        @classmethod
        @idempotent_tool(relay, run_id, key_fn=lambda kind, order: order)
        def refund(cls, order: str) -> str:
            done.append(order)
            return f"refunded {order}"

    with relay.run("r"):
        assert [Till().charge("O-1"), Till().charge("O-1")] == ["charged O-1"] * 2
        assert [Till.refund("O-1"), Till().refund("O-1")] == ["refunded O-1"] * 2
    assert done == ["O-1", "O-1"]
