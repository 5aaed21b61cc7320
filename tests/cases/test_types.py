"""A context keeps its type, its values keep theirs, and what cannot is named."""

from __future__ import annotations

import dataclasses
import pathlib
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pydantic
import pytest

from agent_handoff_kit import HandoffVerificationError, Relay, make_handoff_envelope
from agent_handoff_kit.errors import LossyPayloadWarning, PayloadError
from agent_handoff_kit.idempotency import idempotent_tool


@dataclasses.dataclass
class Customer:
    name: str
    since: date


@dataclasses.dataclass
class Ticket:
    ticket_id: str
    amount: Decimal
    customer: Customer


class TicketModel(pydantic.BaseModel):
    ticket_id: str
    amount: Decimal
    due: datetime


TICKET = Ticket("T-1", Decimal("10.50"), Customer("Ann", date(2030, 1, 2)))
MODEL = TicketModel(ticket_id="T-1", amount=Decimal("10.50"), due=datetime(2030, 1, 2, tzinfo=timezone.utc))
VALUES: dict[str, Any] = {
    "amt": Decimal("10.50"),
    "due": date(2030, 1, 2),
    "at": datetime(2030, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=2))),
    "wait": timedelta(days=-1, microseconds=1),
    "id": UUID(int=7),
    "tags": {"b", "a"},
    "fixed": frozenset({1}),
    "raw": b"\xff\x00",
    "pair": (1, (True, 1.0)),
}
kinds = pytest.mark.parametrize("context", [TICKET, MODEL], ids=["dataclass", "pydantic model"])


def types_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: types_in(item) for key, item in value.items()}
    return [types_in(item) for item in value] if isinstance(value, (list, tuple)) else type(value)


@kinds
def test_a_typed_context_is_verified_by_its_fields_and_comes_back_as_its_type(
    face: Any, path: str, context: Any
) -> None:
    face.handoff("r", "triage", "resolver", context, ["ticket_id"])
    with Relay(path) as later:
        found = later.recover("r")
    assert found is not None
    assert found.state_as(type(context)) == context
    assert found.context_as(type(context)) == context
    assert type(found.context["amount"]) is Decimal


@kinds
def test_a_typed_context_without_a_required_field_is_refused_by_the_name_of_the_key(face: Any, context: Any) -> None:
    with pytest.raises(HandoffVerificationError) as caught:
        face.handoff("r", "triage", "resolver", context, ["ticket_id", "order_id"])
    assert caught.value.missing == ["order_id"]


@kinds
def test_a_guarded_receiver_gets_the_callers_own_typed_object(face: Any, context: Any) -> None:
    seen: list[Any] = []
    guarded = face.relay.guarded_handoff(lambda one: one.ticket_id, "triage", "resolver", ["ticket_id"])
    face.call(guarded(face.receiver(seen.append)), context)
    assert seen[0] is context


@kinds
def test_a_receiver_that_crashed_finds_its_typed_context_again(face: Any, context: Any) -> None:
    def crash(one: Any) -> None:
        raise ConnectionError("billing is down")

    guarded = face.relay.guarded_handoff("r", "triage", "resolver", ["ticket_id"])
    with pytest.raises(ConnectionError):
        face.call(guarded(face.receiver(crash)), context)
    assert face.recover("r").state_as(type(context)) == context


def test_the_state_of_an_envelope_comes_back_as_its_type(face: Any) -> None:
    state = {item.name: getattr(TICKET, item.name) for item in dataclasses.fields(TICKET)}
    envelope = make_handoff_envelope(state, from_agent="triage", to_agent="resolver", messages=["hi"])
    face.handoff("r", "triage", "resolver", envelope, ["ticket_id"], schema=Ticket)
    found = face.recover("r")
    assert (found.state_as(Ticket), found.context["messages"]) == (TICKET, ["hi"])


def test_a_state_that_does_not_fit_the_type_asked_for_names_the_field(face: Any) -> None:
    face.handoff("r", "triage", "resolver", {"ticket_id": "T-1", "amount": "much"})
    with pytest.raises(ValueError, match="amount"):
        face.recover("r").state_as(TicketModel)


@pytest.mark.parametrize("context", [None, 7, "T-1", [1], object(), Ticket])
def test_a_context_of_no_known_kind_is_refused_by_its_type_before_anything_runs(face: Any, context: Any) -> None:
    started: list[Any] = []
    guarded = face.relay.guarded_handoff("r", "triage", "resolver")(face.receiver(started.append))
    with pytest.raises(TypeError, match=type(context).__name__):
        face.call(guarded, context)
    with pytest.raises(TypeError, match=type(context).__name__):
        face.handoff("r", "triage", "resolver", context)
    assert (started, face.history("r")) == ([], [])


def test_common_values_come_back_with_their_value_and_type(face: Any, path: str) -> None:
    face.verify(face.checkpoint("r", "a", "b", VALUES, list(VALUES)))
    with Relay(path) as later:
        found = later.recover("r")
    assert found is not None
    assert found.context == VALUES
    assert types_in(found.context) == types_in(VALUES)


def test_a_registered_dataclass_inside_a_context_comes_back_as_itself(path: str) -> None:
    with Relay(path, types=(Ticket, Customer)) as relay:
        relay.handoff("r", "a", "b", {"items": [TICKET]})
        found = relay.recover("r")
    assert found is not None and found.context == {"items": [TICKET]}


def test_a_dataclass_inside_a_context_keeps_its_fields_and_their_types(face: Any) -> None:
    face.handoff("r", "a", "b", {"item": TICKET})
    item = face.recover("r").context["item"]
    assert item == dataclasses.asdict(TICKET)
    assert (type(item["amount"]), type(item["customer"]["since"])) == (Decimal, date)


def test_a_value_without_a_lossless_form_is_warned_about_with_its_path(face: Any) -> None:
    with pytest.warns(LossyPayloadWarning, match=r"\$\.files\[1\]"):
        face.handoff("r", "a", "b", {"files": ["/a", pathlib.PurePosixPath("/b")]})


def test_a_strict_relay_refuses_a_value_without_a_lossless_form_with_its_path(path: str) -> None:
    with Relay(path, strict=True) as relay:
        with pytest.raises(PayloadError) as caught:
            relay.handoff("r", "a", "b", {"files": ["/a", pathlib.PurePosixPath("/b")]})
        assert caught.value.path == "$.files[1]"
        assert relay.history("r") == []
        assert relay.run_status("r") is None


@pytest.mark.parametrize("result", [*VALUES.values(), None, False, 0, "", [], {1: "a", "1": "b"}], ids=repr)
def test_a_tool_gives_the_same_value_and_type_when_it_runs_and_when_it_is_replayed(
    face: Any, path: str, result: Any
) -> None:
    calls: list[str] = []

    def body(order: str) -> Any:
        calls.append(order)
        return result

    tool = idempotent_tool(face.relay, "r", lambda order: f"tool:{order}")(face.receiver(body))
    first, second = face.call(tool, "O-1"), face.call(tool, "O-1")
    with Relay(path) as later:
        third = later.store.get_tool_result("r", "tool:O-1")
    assert first == second == third
    assert types_in(first) == types_in(second) == types_in(third)
    assert calls == ["O-1"]
