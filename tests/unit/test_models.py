"""Checkpoints, envelopes and typed states."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

import pytest
from typing_extensions import TypedDict

from agent_handoff_kit import _shapes
from agent_handoff_kit import models as m


@dataclasses.dataclass
class Customer:
    name: str


@dataclasses.dataclass
class Ticket:
    ticket_id: int
    customer: Customer
    amount: Decimal = Decimal(0)


class TicketDict(TypedDict):
    ticket_id: int


FIELDS: dict[str, Any] = {"ticket_id": 7, "customer": {"name": "Ann"}, "amount": Decimal("1.50")}


def checkpoint(context: dict[str, Any]) -> m.Checkpoint:
    return m.Checkpoint("r", "a", "b", context, [])


def test_a_row_comes_back_as_the_same_checkpoint() -> None:
    one = m.Checkpoint("r", "a", "b", {"x": 1}, ["x"], error="e", status=m.HandoffStatus.FAILED)
    assert len(one.to_row()) == 9
    assert m.Checkpoint.from_row(one.to_row()) == one


def test_a_broken_row_names_the_field() -> None:
    row = list(checkpoint({}).to_row())
    row[5] = "["
    with pytest.raises(ValueError, match="required_keys"):
        m.Checkpoint.from_row(tuple(row))


def test_an_envelope_is_recognised_and_read() -> None:
    envelope = m.make_handoff_envelope({"x": 1}, from_agent="a", to_agent="b", messages=["hi"])
    assert m.is_handoff_envelope(envelope)
    assert m.checkpoint_state(checkpoint(envelope)) == {"x": 1}
    assert m.checkpoint_messages(envelope) == ["hi"]


@pytest.mark.parametrize(
    "flat",
    [
        {"order_id": 7, "state": {"code": "CA"}, "meta": {"v": 1}},
        {"state": {}, "messages": [], "meta": {"from_agent": "a"}},
        {"state": {}, "messages": (), "meta": {"from_agent": "a", "to_agent": "b"}},
    ],
)
def test_application_data_is_not_taken_for_an_envelope(flat: dict[str, Any]) -> None:
    assert not m.is_handoff_envelope(flat)
    assert m.checkpoint_state(flat) == flat
    assert m.checkpoint_messages(flat) == []


@pytest.mark.parametrize("with_pydantic", [True, False])
def test_a_state_comes_back_as_a_dataclass(with_pydantic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_pydantic:
        monkeypatch.setattr(_shapes, "adapter_for", lambda kind: None)
    envelope = m.make_handoff_envelope(FIELDS, from_agent="a", to_agent="b")
    assert checkpoint(envelope).state_as(Ticket) == Ticket(7, Customer("Ann"), Decimal("1.50"))
    assert checkpoint(FIELDS).context_as(Ticket).customer == Customer("Ann")


def test_a_state_comes_back_as_a_typed_dict_a_dict_or_a_model() -> None:
    assert checkpoint({"ticket_id": 7}).state_as(TicketDict) == {"ticket_id": 7}
    assert checkpoint({"ticket_id": 7}).state_as(dict) == {"ticket_id": 7}
    model = pytest.importorskip("pydantic").create_model("Model", ticket_id=(int, ...))
    assert checkpoint({"ticket_id": 7}).state_as(model) == model(ticket_id=7)


def test_a_state_as_some_other_type_is_refused() -> None:
    with pytest.raises(TypeError, match="dataclass"):
        checkpoint({}).state_as(int)


def test_dicts_dataclasses_and_models_are_contexts() -> None:
    model = pytest.importorskip("pydantic").create_model("Model", ticket_id=(int, ...))
    source = {"x": 1}
    assert m.context_to_mapping(source) == source
    assert m.context_to_mapping(source) is not source
    assert m.context_to_mapping(Customer("Ann")) == {"name": "Ann"}
    assert m.context_to_mapping(model(ticket_id=7)) == {"ticket_id": 7}


@pytest.mark.parametrize("context", [7, [1], None, Customer])
def test_other_contexts_are_refused(context: Any) -> None:
    with pytest.raises(TypeError, match="pydantic model"):
        m.context_to_mapping(context)
