"""Both ways to a verdict judge what is stored, and a completed run has nothing to go on from."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from agent_handoff_kit import HandoffStatus, HandoffVerificationError, Relay


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Item:
    name: str


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay(":memory:") as one:
        yield one


def in_one_step(relay: Relay, context: Any, keys: list[Any], **options: Any) -> Any:
    return relay.handoff("r", "a", "b", context, keys, **options)


def in_two_steps(relay: Relay, context: Any, keys: list[Any], **options: Any) -> Any:
    return relay.verify(relay.checkpoint("r", "a", "b", context, keys, **options))


ways = pytest.mark.parametrize("hand_off", [in_one_step, in_two_steps])


@ways
def test_a_check_sees_values_as_they_are_stored(relay: Relay, hand_off: Any) -> None:
    seen: list[Any] = []
    hand_off(relay, {"item": Item("pen"), "colour": Colour.RED}, ["item"], checks=[seen.append])
    assert seen == [{"item": {"name": "pen"}, "colour": "red"}]


@ways
def test_a_check_that_edits_what_it_judges_changes_neither_the_store_nor_the_callers_object(
    relay: Relay, hand_off: Any
) -> None:
    def edit(state: Any) -> None:
        state["items"].append("edited")
        state["extra"] = 1

    context = {"items": ["pen"]}
    hand_off(relay, context, ["items"], checks=[edit])
    found = relay.recover("r")
    assert found is not None and found.context == context == {"items": ["pen"]}


@ways
@pytest.mark.parametrize("keys", [["red"], [Colour.RED]], ids=str)
def test_a_key_is_looked_for_in_its_stored_form(relay: Relay, hand_off: Any, keys: list[Any]) -> None:
    assert hand_off(relay, {Colour.RED: 1}, keys).status is HandoffStatus.VERIFIED


@ways
def test_a_check_that_refuses_fails_either_way_with_its_reason(relay: Relay, hand_off: Any) -> None:
    def amount_is_positive(state: Any) -> str | None:
        return None if state["amount"] > 0 else "amount is not positive"

    with pytest.raises(HandoffVerificationError, match="amount is not positive"):
        hand_off(relay, {"amount": 0}, ["amount"], checks=[amount_is_positive])
    assert [one.status for one in relay.history("r")] == [HandoffStatus.FAILED]


def test_a_run_that_was_set_completed_has_nothing_to_go_on_from(relay: Relay) -> None:
    relay.handoff("r", "a", "b", {"n": 1})
    relay.store.set_run_status("r", "completed")
    assert relay.recover("r") is None
    relay.store.set_run_status("r", "open")
    assert relay.recover("r") is not None
