"""What is accepted comes back equal, type included; what is not is refused by path."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import pathlib
import subprocess
import sys
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_handoff_kit import _tagged_read
from agent_handoff_kit import serialization as s
from agent_handoff_kit.errors import LossyPayloadWarning, PayloadError


@dataclasses.dataclass(frozen=True)
class Item:
    name: str
    price: Decimal


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            any(same(k, j) and same(v, w) for j, w in right.items()) for k, v in left.items()
        )
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (set, frozenset)):
        return len(left) == len(right) and all(any(same(a, b) for b in right) for a in left)
    if isinstance(left, float):
        return left != left if right != right else left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


texts = st.text(st.characters(), max_size=8) | st.just("$ahk")
offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.binary(max_size=8)
    | st.uuids()
    | st.dates()
    | st.timedeltas()
    | st.datetimes(timezones=st.none() | offsets)
    | st.times()
    | st.decimals(allow_nan=False)
)
keys = scalars | st.tuples(st.integers(), texts) | st.frozensets(st.integers(), max_size=2)
values = st.recursive(
    scalars | st.sets(keys, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=12,
)


@pytest.fixture(params=["orjson", "stdlib"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "stdlib":
        monkeypatch.setattr(s, "ORJSON", None)
        monkeypatch.setattr(_tagged_read, "ORJSON", None)
    else:
        pytest.importorskip("orjson")


@given(values)
@settings(max_examples=200, deadline=None)
def test_any_accepted_value_comes_back_the_same(value: Any) -> None:
    data = s.encode(value, strict=True)
    assert b"\n" not in data
    json.loads(data, parse_constant=pytest.fail)
    assert same(s.decode(data), value)


def bytes_without_orjson(value: Any) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(s, "ORJSON", None)
        patch.setattr(_tagged_read, "ORJSON", None)
        return s.encode(value, strict=True)


@given(values)
@settings(max_examples=300, deadline=None)
def test_the_bytes_do_not_depend_on_the_encoder(value: Any) -> None:
    pytest.importorskip("orjson")
    assert s.encode(value, strict=True) == bytes_without_orjson(value)


SPELLINGS: list[Any] = [
    [1e16, 1e-07, 1e-05, 0.0001, 9.999999999999999e-05, 9007199254740993.0, 1e15, 123456789012345680.0, 5e-324, 1e308],
    [-1e16, -1e-07, -0.0001, -0.0, 0.1, 1.0, -9999999999999998.0, {"half \ud83d": 1e22}, (1e16,)],
    "".join(map(chr, range(0x300))),
    "\u2028\u2029\ufeff\uffff\U0001f600\U0010ffff",
    {"ключ \x7f": "\ud83d", "\x1b": "\ud83d\ude00"},
    [2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64],
]


@pytest.mark.parametrize("value", SPELLINGS, ids=range(len(SPELLINGS)))
def test_numbers_and_characters_are_spelled_alike_by_every_encoder(value: Any) -> None:
    pytest.importorskip("orjson")
    data = s.encode(value, strict=True)
    assert data == bytes_without_orjson(value)
    assert same(s.decode(data), value)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=500, deadline=None)
def test_floats_are_spelled_alike_by_every_encoder(value: list[float]) -> None:
    pytest.importorskip("orjson")
    assert s.encode(value) == bytes_without_orjson(value)


EDGES = [
    {"score": math.nan, "cap": math.inf, "low": -math.inf, "zero": -0.0},
    {"note": "a\x00b", "t": "half \ud83d", "two": "\ud83d" + "\ude00", "whole": "\U0001f600"},
    {"half \ud83d": 1},
    {"lines": {1: "int", "1": "str"}},
    {"m": {None: 1, (1, 2): 3, True: 4}},
    {"amt": Decimal("10.50"), "due": date(2030, 1, 2), "tags": {"b", "a"}, "raw": b"\xff\x00"},
    {"$ahk": "dt", "v": "2020"},
    {"a": {"$ahk": {"$ahk": 1}}},
    [2**63 - 1, -(2**63), 2**63, 2**64, -(2**64), 10**5000],
    (1, (2, [3, ()])),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(0), "GMT")),
    time(1, 2, 3, 4, fold=1),
    timedelta(-1, 5, 6),
    UUID(int=5),
    {math.nan, 1.5},
    "line\nbreak\u2028",
]


@pytest.mark.parametrize("value", EDGES, ids=range(len(EDGES)))
@pytest.mark.usefixtures("encoder")
def test_edge_values_come_back_with_either_encoder(value: Any) -> None:
    data = s.encode(value, strict=True)
    assert b"\n" not in data
    assert same(s.decode(data), value)


def test_fold_and_zone_are_kept() -> None:
    back = s.decode(s.encode(EDGES[10]))
    assert back.fold == 1
    assert back.tzinfo.key == "Europe/Berlin"


def test_equal_sets_and_key_pairs_have_equal_bytes() -> None:
    assert s.encode({"b", "a", "c"}) == s.encode({"c", "b", "a"})
    assert s.encode({1: 1, 2: 2}) == s.encode({2: 2, 1: 1})


def test_a_cycle_is_refused_by_path() -> None:
    loop: dict[str, Any] = {"k": 1}
    loop["self"] = loop
    with pytest.raises(PayloadError, match="cycle") as caught:
        s.encode(loop)
    assert caught.value.path == "$.self"


def test_a_shared_value_is_no_cycle() -> None:
    shared = {"x": (1,)}
    assert s.decode(s.encode({"p": shared, "q": [shared, shared]})) == {"p": shared, "q": [shared, shared]}


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"k": v}, lambda v: (v,)])
def test_very_deep_nesting_is_refused(wrap: Any) -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = wrap(deep)
    with pytest.raises(PayloadError, match="200"):
        s.encode(deep)


def test_two_hundred_levels_are_accepted() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    assert s.decode(s.encode(deep)) == deep
    with pytest.raises(PayloadError):
        s.encode([deep])


def test_a_payload_over_the_limit_is_refused() -> None:
    with pytest.raises(PayloadError, match="size limit"):
        s.encode("x" * 100, max_bytes=50)


def test_a_widely_shared_value_cannot_blow_up() -> None:
    value: Any = 0
    for _ in range(60):
        value = [value, value]
    with pytest.raises(PayloadError, match="size limit"):
        s.encode(value, max_bytes=10_000)


def test_an_unknown_type_is_simplified_with_a_warning_naming_the_path() -> None:
    with pytest.warns(LossyPayloadWarning, match=r"\$\.a\[0\]"):
        assert s.decode(s.encode({"a": [pathlib.PurePosixPath("/x")]})) == {"a": ["/x"]}


def test_an_unknown_type_is_refused_when_strict() -> None:
    with pytest.raises(PayloadError) as caught:
        s.encode({"a": {"b c": 1j}}, strict=True)
    assert caught.value.path == "$.a['b c']"


def test_members_that_become_the_same_are_refused() -> None:
    with pytest.raises(PayloadError, match="written as"):
        s.encode({Colour.RED: 1, "red": 2})


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"$ahk":"dt","v":1}', b'{"$ahk":"zz","v":1}', b'{"$ahk":[]}'])
def test_broken_bytes_are_a_payload_error(data: bytes) -> None:
    with pytest.raises(PayloadError):
        s.decode(data)


def test_each_message_is_encoded_by_itself_and_named() -> None:
    assert s.encode_messages([{"a": 1}, "x"]) == [b'{"a":1}', b'"x"']
    with pytest.raises(PayloadError) as caught:
        s.encode_messages([1, {"a": 1j}], strict=True)
    assert caught.value.path == "messages[1].a"


def test_the_digest_is_bound_to_its_place_and_to_the_split_of_parts() -> None:
    all_different = {
        s.digest("r", "o", "k", b"ab"),
        s.digest("r", "o", "k", b"a", b"b"),
        s.digest("ro", "", "k", b"ab"),
        s.digest("r", "o", "j", b"ab"),
    }
    assert len(all_different) == 4


@pytest.mark.parametrize("value", ["", "x" * 256, "r\x00x", "k\ud83dx", 7, None])
def test_unfit_text_is_refused_by_name(value: Any) -> None:
    with pytest.raises(PayloadError) as caught:
        s.check_text("run_id", value)
    assert caught.value.path == "run_id"
    str(caught.value).encode()


def test_fit_text_is_given_back() -> None:
    assert s.check_text("run_id", "r-1 \U0001f600") == "r-1 \U0001f600"


def test_the_0_1_0_helpers_still_simplify() -> None:
    assert s.dumps_safe({1: (1, date(2030, 1, 2))}) == '{"1": [1, "2030-01-02"]}'
    with pytest.raises(ValueError, match="context"):
        s.loads_field("{", "context")


def test_the_0_1_0_helpers_refuse_cycles_and_depth() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(PayloadError):
            s.dumps_safe(value)


def test_serialization_does_not_import_pydantic() -> None:
    code = "import sys, agent_handoff_kit.serialization; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
