"""A typed application context is snapshotted by the names of its fields, and restored equal."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from agent_handoff_kit.errors import PayloadError
from agent_handoff_kit.openai_adapter.context import ContextPort


class Customer(pydantic.BaseModel):
    full_name: str = pydantic.Field(alias="fullName")


class Ticket(pydantic.BaseModel):
    ticket_id: int = pydantic.Field(alias="ticketId")
    customer: Customer


@dataclass
class Basket:
    ticket: Ticket
    n: int = 0


def ticket() -> Ticket:
    return Ticket.model_validate({"ticketId": 7, "customer": {"fullName": "Ann"}})


@pytest.mark.parametrize("context", [ticket(), Basket(ticket())], ids=["model", "dataclass"])
def test_a_typed_context_is_restored_equal(context: Any) -> None:
    before = copy.deepcopy(context)
    port = ContextPort(context, None, None, ())
    snapshot = port.taken()
    name = "n" if isinstance(context, Basket) else "ticket_id"
    setattr(context, name, 9)
    port.restore(snapshot)
    assert context == before


def test_a_model_in_a_dict_cannot_be_restored_and_is_refused() -> None:
    with pytest.raises(PayloadError, match=r"context\.ticket"):
        ContextPort({"ticket": ticket()}, None, None, ()).taken()
