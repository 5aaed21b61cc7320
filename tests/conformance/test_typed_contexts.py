"""A typed context satisfies its own schema and comes back equal, whatever its type does to names and values."""

from __future__ import annotations

import collections
import enum
import warnings
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from agent_handoff_kit import HandoffStatus, HandoffVerificationError, Relay
from agent_handoff_kit.errors import LossyPayloadWarning, PayloadError
from agent_handoff_kit.idempotency import idempotent_tool
from agent_handoff_kit.pipeline import Pipeline, Step


class Customer(pydantic.BaseModel):
    full_name: str = pydantic.Field(alias="fullName")
    card: str = pydantic.Field("", exclude=True)


class Ticket(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    ticket_id: int = pydantic.Field(validation_alias=pydantic.AliasChoices("ticketId", "id"))
    customer: Customer
    others: list[Customer] = []
    pairs: dict[str, tuple[Customer, Decimal]] = {}

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def shout(self) -> str:
        return f"T-{self.ticket_id}"


class Taxed(pydantic.BaseModel):
    price: int

    @pydantic.field_validator("price")
    @classmethod
    def with_tax(cls, value: int) -> int:
        return value * 2


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    colour: Colour | None = None


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    part: Part
    colours: list[Colour] = []
    by_colour: dict[Colour, tuple[int, Colour]] = {}
    several: tuple[Colour, ...] = ()
    kinds: set[Colour] = set()


@dataclass
class Basket:
    ticket: Ticket
    counts: collections.Counter[str] = field(default_factory=collections.Counter)


def ticket() -> Ticket:
    customer = {"fullName": "Ann", "card": "4000"}
    return Ticket.model_validate(
        {"ticketId": 7, "customer": customer, "others": [customer], "pairs": {"a": [customer, "1.5"]}}
    )


STRICT = Strict(
    part=Part(colour=Colour.BLUE),
    colours=[Colour.RED],
    by_colour={Colour.BLUE: (1, Colour.RED)},
    several=(Colour.RED, Colour.BLUE),
    kinds={Colour.BLUE},
)
CONTEXTS: list[Any] = [ticket(), Basket(ticket(), collections.Counter("aab")), STRICT]
contexts = pytest.mark.parametrize("context", CONTEXTS, ids=["model", "dataclass", "strict model"])


@contexts
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_typed_context_satisfies_its_own_schema_and_comes_back_equal(context: Any, strict: bool, steps: int) -> None:
    kind = type(context)
    with Relay(":memory:", strict=strict) as relay:
        if steps == 1:
            made = relay.handoff("r", "a", "b", context, schema=kind)
        else:
            made = relay.verify(relay.checkpoint("r", "a", "b", context, schema=kind))
        found = relay.recover("r")
    assert made.status is HandoffStatus.VERIFIED
    assert found is not None
    assert found.state_as(kind) == found.context_as(kind) == context


def test_a_state_with_the_names_of_aliases_satisfies_the_schema_too() -> None:
    state = {"id": 7, "customer": {"fullName": "Ann"}, "others": [{"full_name": "Bob"}]}
    with Relay(":memory:") as relay:
        made = relay.handoff("r", "a", "b", state, schema=Ticket)
        assert made.state_as(Ticket).others[0].full_name == "Bob"
        with pytest.raises(HandoffVerificationError, match="shout"):
            relay.handoff("r", "a", "b", {**state, "shout": "T-7"}, schema=Ticket)


def test_a_model_that_its_own_validators_change_is_complained_about() -> None:
    context = Taxed(price=5)
    with Relay(":memory:") as relay, pytest.warns(LossyPayloadWarning, match=r"\$: Taxed does not come back equal"):
        relay.handoff("r", "a", "b", context)
    with Relay(":memory:", strict=True) as relay:
        with pytest.raises(PayloadError, match="Taxed"):
            relay.handoff("r", "a", "b", context)
        assert relay.history("r") == []


def test_a_dataclass_whose_field_does_not_come_back_is_complained_about() -> None:
    @dataclass
    class Loose:
        anything: Any

    with Relay(":memory:", strict=True) as relay:
        relay.handoff("r", "a", "b", Loose(1))
        with pytest.raises(PayloadError, match="Loose"):
            relay.handoff("r", "a", "b", Loose(ticket()))


def test_a_model_inside_a_dict_is_complained_about() -> None:
    with Relay(":memory:") as relay, pytest.warns(LossyPayloadWarning, match=r"\$\.ticket: Ticket"):
        relay.handoff("r", "a", "b", {"ticket": ticket()})


@contexts
def test_a_pipeline_takes_up_a_typed_context_after_a_crash(context: Any) -> None:
    kind, seen = type(context), list[Any]()

    def first(one: Any) -> Any:
        return one

    def second(one: Any) -> Any:
        seen.append(one)
        if len(seen) == 1:
            raise ConnectionError("gone")
        return one

    second.__annotations__ = {"one": kind, "return": kind}
    with Relay(":memory:", strict=True) as relay:
        pipeline = Pipeline(relay, [Step("first", first), Step("second", second, schema=kind)])
        with pytest.raises(ConnectionError):
            pipeline.run("r", context)
        assert pipeline.run("r", context) == pipeline.run("r", context) == context
    assert seen == [context, context]


def test_a_tools_typed_result_comes_back_equal_when_it_runs_and_when_it_is_replayed() -> None:
    with Relay(":memory:", strict=True) as relay:

        @idempotent_tool(relay, "r", lambda: "k")
        def tool() -> Ticket:
            return ticket()

        assert tool() == tool() == ticket()


def test_a_tools_model_that_nothing_makes_again_is_complained_about() -> None:
    with Relay(":memory:") as relay:

        @idempotent_tool(relay, "r", lambda: "k")
        def tool():  # type: ignore[no-untyped-def]
            return ticket()

        with pytest.warns(LossyPayloadWarning, match="result: Ticket"):
            first = tool()
        assert first == tool()


class Changing:
    """Answers differently each time it is asked for its fields."""

    def __init__(self) -> None:
        self.asked = 0

    def model_dump(self) -> dict[str, Any]:
        self.asked += 1
        return {"answer": self.asked}


class Lying(dict[str, Any]):
    """Has every key, until it is written."""

    def __contains__(self, key: object) -> bool:
        return True

    def __iter__(self) -> Any:
        return iter(["ticket_id", *super().__iter__()])


def test_what_is_judged_is_what_is_stored_whatever_a_value_answers_next() -> None:
    seen: list[Any] = []
    with Relay(":memory:") as relay, warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyPayloadWarning)
        for number in range(3):
            relay.handoff(f"r{number}", "a", "b", {"n": number, "value": Changing()}, checks=[seen.append])
            found = relay.recover(f"r{number}")
            assert found is not None and found.context == seen[number]


def test_keys_are_looked_for_in_what_is_stored_whatever_a_state_claims_to_hold() -> None:
    envelope = {"state": Lying(n=1), "messages": [], "meta": {"from_agent": "a", "to_agent": "b"}}
    with Relay(":memory:") as relay, warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyPayloadWarning)
        with pytest.raises(HandoffVerificationError) as caught:
            relay.handoff("r", "a", "b", envelope, ["ticket_id"])
    assert caught.value.missing == ["ticket_id"]
