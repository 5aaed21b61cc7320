"""A registered type comes back as itself and equal; what loses its type is warned about, or refused."""

from __future__ import annotations

import collections
import dataclasses
import enum
import http
import threading
import warnings
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple, NewType

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_handoff_kit import Relay
from agent_handoff_kit import serialization as s
from agent_handoff_kit.errors import LossyPayloadWarning, PayloadError


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


class Name(str):
    pass


class Doubled(int):
    def __new__(cls, value: int) -> Doubled:
        return super().__new__(cls, value * 2)


@dataclasses.dataclass(frozen=True)
class Item:
    name: str
    price: Decimal


Price = NewType("Price", Decimal)


@dataclasses.dataclass
class Basket:
    items: list[Item]
    colour: Colour | None = None
    price: Price | None = None
    anything: Any = None


@dataclasses.dataclass(eq=False)
class Identity:
    n: float


class Aliased(pydantic.BaseModel):
    ticket_id: int = pydantic.Field(alias="ticketId")
    amount: Decimal = pydantic.Field(Decimal(1), validation_alias=pydantic.AliasChoices("amt", "sum"))
    note: str = pydantic.Field("", serialization_alias="remark")


class Computed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    n: int

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return self.n * 2


class Excluded(pydantic.BaseModel):
    kept: int
    hidden: str = pydantic.Field(exclude=True)


class Derived(pydantic.BaseModel):
    price: Decimal

    @pydantic.field_validator("price")
    @classmethod
    def with_tax(cls, value: Decimal) -> Decimal:
        return value * 2


class Extra(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    n: int = 0


class Private(pydantic.BaseModel):
    n: int
    _seen: list[int] = pydantic.PrivateAttr(default_factory=list)

    def see(self, number: int) -> None:
        self._seen.append(number)


class Locked(pydantic.BaseModel):
    n: int
    _lock: Any = pydantic.PrivateAttr(default_factory=threading.Lock)

    def is_free(self) -> bool:
        with self._lock:
            return True


class Serialised(pydantic.BaseModel):
    at: date

    @pydantic.field_serializer("at")
    def spelled(self, value: date) -> str:
        return f"on {value}"


class Nested(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    one: Aliased
    many: dict[str, list[Excluded]] = {}
    item: Item | None = None
    colour: Colour = Colour.RED


class Numbers(pydantic.RootModel[list[int]]):
    pass


def private() -> Private:
    made = Private(n=1)
    made.see(7)
    return made


ALIASED = Aliased.model_validate({"ticketId": 7, "sum": "1.50"})
MODELS: list[Any] = [
    ALIASED,
    Computed(n=2),
    Excluded(kept=1, hidden="x"),
    Derived(price=Decimal(5)),
    Extra.model_validate({"n": 1, "more": {"a": Decimal(1)}, "fields": 2}),
    private(),
    Serialised(at=date(2030, 1, 2)),
    Nested(one=ALIASED, many={"a": [Excluded(kept=1, hidden="y")]}, item=Item("a", Decimal(1))),
    Numbers([1, 2]),
]
OTHERS: list[Any] = [
    Colour.RED,
    Level.HIGH,
    Point(1, 2),
    Name("Ann"),
    collections.OrderedDict(b=1, a=Decimal(2)),
    collections.Counter("aab"),
    Item("a", Decimal(1)),
    Basket([Item("a", Decimal(1))], Colour.RED, Price(Decimal("1.5"))),
    Identity(float("nan")),
]


def names(value: Any) -> str:
    return type(value).__name__


def there_and_back(value: Any, *types: type) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return s.decode(s.encode(value, strict=True, types=types), types=types)


@pytest.mark.parametrize("value", MODELS, ids=names)
def test_a_registered_model_comes_back_equal_with_all_that_its_instance_holds(value: Any) -> None:
    back = there_and_back({"m": [value]}, type(value))["m"][0]
    assert (type(back), back) == (type(value), value)
    assert back.model_fields_set == value.model_fields_set
    assert back.model_dump() == value.model_dump()
    assert back.model_copy(update={}) == value


@pytest.mark.parametrize("value", OTHERS, ids=names)
def test_a_registered_type_comes_back_as_itself(value: Any) -> None:
    back = there_and_back((value,), type(value))[0]
    assert type(back) is type(value)
    assert back == value or vars(back).keys() == vars(value).keys() == {"n"}


@given(st.lists(st.sampled_from([*MODELS, *OTHERS[:-1]]), max_size=4), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_registered_types_come_back_wherever_they_stand(values: list[Any], depth: int) -> None:
    value: Any = {"v": values}
    for _ in range(depth):
        value = [(value,), Basket([], anything=value)]
    kinds = {type(one) for one in (*MODELS, *OTHERS)}
    assert there_and_back(value, *kinds) == value


def test_a_registered_type_brings_the_records_and_enums_of_its_fields_along() -> None:
    back = there_and_back(Basket([Item("a", Decimal(1))], Colour.RED), Basket)
    assert (type(back.items[0]), back.colour) == (Item, Colour.RED)


def test_what_a_later_class_no_longer_has_is_left_out_and_what_is_new_gets_its_default() -> None:
    earlier = pydantic.create_model("Ticket", gone=(int, ...), n=(int, ...))
    later = pydantic.create_model("Ticket", n=(int, ...), new=(list[int], pydantic.Field(default_factory=list)))
    assert s.decode(s.encode(earlier(gone=1, n=2), types=(earlier,)), types=(later,)) == later(n=2)


def test_private_attributes_that_cannot_be_kept_are_complained_about_and_made_anew() -> None:
    value = Locked(n=1)
    with pytest.raises(PayloadError, match="does not come back equal"):
        s.encode({"a": value}, strict=True, types=(Locked,))
    with pytest.warns(LossyPayloadWarning, match=r"\$\.a: Locked does not come back equal"):
        data = s.encode({"a": value}, types=(Locked,))
    back = s.decode(data, types=(Locked,))["a"]
    assert back.n == 1
    assert back.is_free()


def test_a_type_that_makes_something_else_of_its_value_is_complained_about() -> None:
    with pytest.raises(PayloadError, match="does not come back equal"):
        s.encode([Doubled(2)], strict=True, types=(Doubled,))


def test_a_type_that_cannot_be_made_again_keeps_its_value_at_every_depth() -> None:
    class Fussy(dict[str, Any]):
        def __init__(self, *, given: Any) -> None:
            super().__init__(given=given)

    types = (Fussy, Item)
    value = Fussy(given=[Fussy(given=1), Item("a", Decimal(1))])
    with pytest.raises(PayloadError, match="without its type"):
        s.encode(value, strict=True, types=types)
    with pytest.warns(LossyPayloadWarning, match="without its type"):
        data = s.encode(value, types=types)
    assert s.decode(data) == {"given": [{"given": 1}, {"name": "a", "price": Decimal(1)}]}


def test_a_field_of_another_type_than_registered_is_complained_about() -> None:
    with pytest.raises(PayloadError, match="comes back as dict"):
        s.encode(Basket([], anything=Private(n=1)), strict=True, types=(Basket,))


@pytest.mark.parametrize("kind", [object, threading.Thread])
def test_a_type_that_cannot_be_kept_is_not_registered(kind: type) -> None:
    with pytest.raises(PayloadError, match=kind.__name__):
        Relay(":memory:", types=[kind])


KEPT: list[Any] = [Item("a", Decimal("1.0")), Colour.RED, Level.HIGH, http.HTTPStatus.OK, {Colour.RED: 1}]


@pytest.mark.parametrize("value", KEPT, ids=names)
def test_enums_and_dataclasses_keep_their_value_without_a_warning(value: Any) -> None:
    there_and_back({"v": value})


RETYPED: list[Any] = [
    Point(1, 2),
    Name("Ann"),
    Doubled(1),
    collections.OrderedDict(a=1),
    collections.Counter("a"),
    collections.defaultdict(int, a=1),
    ALIASED,
]


@pytest.mark.parametrize("value", RETYPED, ids=names)
def test_what_comes_back_as_another_type_is_warned_about_with_its_path(value: Any) -> None:
    with pytest.warns(LossyPayloadWarning, match=rf"\$\.a\[0\]: {type(value).__name__}"):
        data = s.encode({"a": [value]})
    assert type(s.decode(data)["a"][0]) in (tuple, str, int, dict)
    with pytest.raises(PayloadError) as caught:
        s.encode({"a": [value]}, strict=True)
    assert caught.value.path == "$.a[0]"


@pytest.mark.parametrize("key", [Name("Ann"), Doubled(1), Point(1, 2)], ids=names)
def test_a_key_that_comes_back_as_another_type_is_warned_about(key: Any) -> None:
    with pytest.warns(LossyPayloadWarning, match=type(key).__name__):
        s.encode({"a": {key: 1}})


def test_values_are_compared_whatever_their_types() -> None:
    assert s.canonical(collections.OrderedDict(a=Point(1, 2))) == s.canonical({"a": (1, 2)})
    assert s.canonical(Excluded(kept=1, hidden="x")) != s.canonical(Excluded(kept=1, hidden="y"))
