"""A state becomes the type asked for by its annotations, with and without pydantic."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import NotRequired, Required, TypedDict

from agent_handoff_kit import Relay, _shapes, verification
from agent_handoff_kit.errors import HandoffVerificationError
from agent_handoff_kit.models import Checkpoint
from agent_handoff_kit.serialization import decode, encode

T = TypeVar("T")
OrderId = NewType("OrderId", str)


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Item:
    name: str
    colour: Colour = Colour.RED


@dataclasses.dataclass(frozen=True)
class Parcel:
    name: str
    weight: float


class Note(TypedDict, total=False):
    text: Required[str]
    item: NotRequired[Item]


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass
class Order:
    order_id: OrderId
    first: Item
    level: Level = Level.LOW
    items: list[Item] = dataclasses.field(default_factory=list)
    by_name: dict[str, Item] = dataclasses.field(default_factory=dict)
    maybe: Item | None = None
    newer: Item | None = None
    either: Item | Parcel | str | None = None
    pair: tuple[Item, int] = (Item("a"), 1)
    many: tuple[Item, ...] = ()
    kinds: set[Colour] = dataclasses.field(default_factory=set)
    fixed: frozenset[Item] = frozenset()
    deep: dict[str, list[tuple[Item, Colour]]] = dataclasses.field(default_factory=dict)
    sequence: Sequence[Item] = ()
    mapping: Mapping[Colour, Item] = dataclasses.field(default_factory=dict)
    note: Note | None = None
    notes: list[Note] = dataclasses.field(default_factory=list)
    place: Point | None = None
    word: Literal["yes", "no"] = "yes"
    marked: Annotated[Item, "mark"] = Item("m")
    ordered: collections.OrderedDict[str, int] = dataclasses.field(default_factory=collections.OrderedDict)
    anything: Any = None
    total: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        self.total = len(self.items)


FIELDS: dict[str, Any] = {
    "order_id": OrderId("O-1"),
    "first": Item("pen", Colour.BLUE),
    "level": Level.HIGH,
    "items": [Item("a"), Item("b", Colour.BLUE)],
    "by_name": {"a": Item("a")},
    "maybe": Item("m"),
    "newer": Item("n"),
    "either": Parcel("p", 1.5),
    "pair": (Item("q"), 7),
    "many": (Item("r"), Item("s")),
    "kinds": {Colour.RED, Colour.BLUE},
    "deep": {"k": [(Item("t"), Colour.BLUE)]},
    "sequence": [Item("u")],
    "mapping": {Colour.BLUE: Item("v")},
    "note": {"text": "hi", "item": Item("w")},
    "notes": [{"text": "a"}, {"text": "b", "item": Item("x")}],
    "word": "no",
    "marked": Item("y", Colour.BLUE),
    "anything": {"free": [1, 2]},
}


@pytest.fixture(params=["pydantic", "plain"])
def adapter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        without_pydantic(monkeypatch)
    else:
        pytest.importorskip("pydantic")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pydantic(monkeypatch)


def without_pydantic(patch: pytest.MonkeyPatch) -> None:
    for module in (_shapes, verification):
        patch.setattr(module, "adapter_for", lambda kind: None)


def stored(context: dict[str, Any]) -> Checkpoint:
    return Checkpoint("r", "a", "b", decode(encode(context, noted=[])), [])


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("name", FIELDS)
def test_a_field_comes_back_as_its_annotation_says(name: str) -> None:
    fields: dict[str, Any] = {"order_id": OrderId("O-1"), "first": Item("pen"), name: FIELDS[name]}
    order = Order(**fields)
    with Relay(":memory:") as relay:
        relay.handoff("r", "a", "b", order, ["order_id"], schema=Order)
        found = relay.recover("r")
    assert found is not None
    assert found.state_as(Order) == order


@given(st.sets(st.sampled_from(list(FIELDS))))
@settings(max_examples=50, deadline=None)
def test_fields_come_back_together(names: set[str]) -> None:
    order = Order(**{name: FIELDS[name] for name in {"order_id", "first"} | names})
    context = {field.name: getattr(order, field.name) for field in dataclasses.fields(order)}
    with pytest.MonkeyPatch.context() as patch:
        without_pydantic(patch)
        assert stored(context).state_as(Order) == order


@pytest.mark.usefixtures("plain")
def test_a_collection_type_of_its_own_comes_back() -> None:
    fields = {"order_id": "O-1", "first": {"name": "pen"}, "place": (3, 4), "ordered": {"b": 1, "a": 2}}
    order = stored(fields).state_as(Order)
    assert (order.place, type(order.place)) == (Point(3, 4), Point)
    assert type(order.ordered) is collections.OrderedDict


@pytest.mark.usefixtures("adapter")
def test_a_field_that_init_does_not_take_keeps_its_value() -> None:
    order = Order(OrderId("O-1"), Item("pen"))
    order.total = 7
    assert stored({one.name: getattr(order, one.name) for one in dataclasses.fields(order)}).state_as(Order) == order


UNFIT: dict[str, Any] = {
    "first": {"name": 7},
    "level": 2,
    "items": [{"name": "a"}, {"name": None}],
    "by_name": {"a": 7},
    "maybe": "text",
    "pair": [{"name": "a"}],
    "many": {"name": "a"},
    "kinds": ["green"],
    "deep": {"k": [[{"name": "a"}, "green"]]},
    "note": {},
    "word": "perhaps",
    "marked": None,
}


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("name", UNFIT)
def test_a_value_that_does_not_fit_is_objected_to_by_its_field(name: str) -> None:
    state = {"order_id": "O-1", "first": {"name": "pen"}, name: UNFIT[name]}
    with Relay(":memory:") as relay, pytest.raises(HandoffVerificationError) as caught:
        relay.handoff("r", "a", "b", state, schema=Order)
    assert caught.value.reasons
    assert all(reason.startswith(name) for reason in caught.value.reasons)
    with pytest.raises((ValueError, TypeError), match=name):
        stored(state).state_as(Order)


@pytest.mark.usefixtures("plain")
def test_the_place_of_a_nested_objection_is_spelled_out() -> None:
    state = {"order_id": "O-1", "first": {}, "items": [{"name": "a"}, {"name": 7}]}
    reasons = verification.judge(state, (), Order).reasons
    assert reasons == ["first.name: field of Item is missing", "items.1.name: expected str, found int"]


@pytest.mark.usefixtures("adapter")
def test_what_post_init_refuses_is_an_objection() -> None:
    @dataclasses.dataclass
    class Positive:
        n: int

        def __post_init__(self) -> None:
            if self.n < 0:
                raise ValueError("n is negative")

    assert verification.judge({"n": 1}, (), Positive).ok
    assert "n is negative" in verification.judge({"n": -1}, (), Positive).reasons[0]


@pytest.mark.usefixtures("plain")
def test_of_several_records_the_one_that_takes_every_field_is_made() -> None:
    state = {"order_id": "O-1", "first": {"name": "pen"}, "either": {"name": "p", "weight": 2.0}}
    assert stored(state).state_as(Order).either == Parcel("p", 2.0)


@pytest.mark.usefixtures("adapter")
def test_a_generic_record_leaves_open_what_it_holds() -> None:
    assert stored({"content": [1]}).state_as(Box) == Box([1])


@pytest.mark.usefixtures("adapter")
def test_annotations_that_cannot_be_resolved_are_a_clear_error() -> None:
    @dataclasses.dataclass
    class Local:
        item: Missing  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore

    for attempt in (lambda: verification.judge({"item": 1}, (), Local), lambda: stored({"item": 1}).state_as(Local)):
        with pytest.raises(TypeError, match=r"annotations of Local.*Missing"):
            attempt()


def test_annotations_of_a_model_that_cannot_be_resolved_are_a_clear_error() -> None:
    pydantic = pytest.importorskip("pydantic")
    local = pydantic.create_model("Local", item=("Missing", ...))
    for attempt in (lambda: verification.judge({"item": 1}, (), local), lambda: stored({"item": 1}).state_as(local)):
        with pytest.raises(TypeError, match=r"annotations of Local.*Missing"):
            attempt()
