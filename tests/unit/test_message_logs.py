"""A list extends the stored one exactly when it begins with it, exact types included."""

from __future__ import annotations

import array
import copy
import warnings
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_handoff_kit import Relay, make_handoff_envelope
from agent_handoff_kit.errors import LossyPayloadWarning
from agent_handoff_kit.serialization import encode, encode_messages
from agent_handoff_kit.store.logs import Log, appended, whole_list
from agent_handoff_kit.store.records import EMPTY_CHAIN, LogHead, chain

LOOKALIKES: list[list[Any]] = [
    [0, False, 0.0, -0.0, "0", Decimal(0), Decimal("0.0")],
    [1, True, 1.0, "1", Decimal(1), Decimal("1.00")],
    ["", b"", None, [], (), {}, set(), frozenset()],
    ["a", b"a", ["a"], ("a",), {"a"}, frozenset({"a"}), {"a": None}],
    [float("nan"), "nan", float("inf"), "inf"],
    [datetime(2030, 1, 2), datetime(2030, 1, 2, fold=1), datetime(2030, 1, 2, tzinfo=timezone.utc), date(2030, 1, 2)],
    [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
    [{1: "x"}, {"1": "x"}, {True: "x"}, {1.0: "x"}],
    [{"$ahk": "dec", "v": "1"}, Decimal(1), {"$ahk": "dec"}],
    ["é", "e\u0301", "\ud83d", "\\ud83d"],
]
leaves = st.sampled_from([one for family in LOOKALIKES for one in family]).map(copy.deepcopy)
scalars = leaves | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=4) | st.datetimes()
messages = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["role", "content", "n"]), inner, max_size=3)
    ),
    max_leaves=6,
)
lists = st.lists(messages, max_size=5)


def edited(value: Any, draw: Any) -> Any:
    """The value with one place in it changed to something that looks like it, in place where that can be."""
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(list(value)))
        value[key] = edited(value[key], draw)
        return value
    if isinstance(value, list) and value:
        index = draw(st.integers(0, len(value) - 1))
        value[index] = edited(value[index], draw)
        return value
    family = next((one for one in LOOKALIKES if any(encode(value) == encode(other) for other in one)), None)
    return draw(leaves if family is None else st.sampled_from(family).map(copy.deepcopy))


def changed(before: list[Any], draw: Any) -> list[Any]:
    """What a caller may have done to the list since it was stored."""
    how = draw(st.sampled_from(["append", "edit in place", "edit and append", "truncate", "replace", "same"]))
    if how.startswith("edit"):
        edited(before, draw)
    if how.endswith("append"):
        before = before + draw(lists)
    if how == "truncate":
        before = before[: draw(st.integers(0, len(before)))]
    return draw(lists) if how == "replace" else before


def head_of(log: Log) -> LogHead:
    return LogHead(1, log.length, log.digest)


def begins_with(after: Sequence[bytes], before: Sequence[bytes]) -> bool:
    return list(after[: len(before)]) == list(before)


@pytest.mark.parametrize("warm", [True, False], ids=["seen by this process", "seen by another process"])
@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_a_list_extends_a_log_exactly_when_it_begins_with_it_encoded(warm: bool, data: st.DataObject) -> None:
    live = data.draw(lists)
    first = whole_list(live, None, None)
    before = encode_messages(copy.deepcopy(live))
    live = changed(live, data.draw)
    after = encode_messages(live)
    log = whole_list(live, head_of(first), first.snapshot if warm else None)
    assert (log.extends is not None) == begins_with(after, before)
    assert list(log.lines) == (after[len(before) :] if log.extends else after)
    assert (log.length, log.digest) == (len(after), chain(EMPTY_CHAIN, after))


@given(lists, lists, st.booleans())
@settings(deadline=None)
def test_appending_gives_the_log_of_the_whole_list(stored: list[Any], new: list[Any], has_head: bool) -> None:
    head = head_of(whole_list(stored, None, None)) if has_head else None
    log = appended(new, head)
    whole = whole_list(stored + new if has_head else new, None, None)
    assert (log.length, log.digest, log.extends) == (whole.length, whole.digest, head)
    assert list(log.lines) == encode_messages(new)


@pytest.mark.parametrize("before", [b"x", bytearray(b"x"), array.array("B", b"x")], ids=repr)
def test_an_object_that_shares_its_bytes_with_another_is_told_apart(before: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyPayloadWarning)
        first = whole_list([before], None, None)
        for after in (b"x", bytearray(b"x"), array.array("b", b"x")):
            log = whole_list([after], head_of(first), first.snapshot)
            assert (log.extends is not None) == (encode(before) == encode(after)), after


def flagged(value: Any) -> Any:
    """A value as something that is equal only where type and content are."""
    if isinstance(value, dict):
        return ("dict", [(flagged(key), flagged(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [flagged(item) for item in value])
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, sorted(repr(item) for item in value))
    return (type(value).__name__, repr(value))


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_every_checkpoint_gives_back_the_messages_it_was_given(data: st.DataObject) -> None:
    expected: list[Any] = []
    live: list[Any] = []
    with Relay(":memory:") as relay:
        for _ in range(data.draw(st.integers(1, 6))):
            how = data.draw(st.sampled_from(["whole list", "whole list", "new messages", "another relay"]))
            if how == "new messages":
                new = data.draw(lists)
                live = live + new
                relay.handoff("r", "a", "b", {}, new_messages=new)
            else:
                live = changed(live, data.draw)
                writer = Relay(relay.store) if how == "another relay" else relay
                context = make_handoff_envelope({}, from_agent="a", to_agent="b", messages=live)
                writer.handoff("r", "a", "b", context)
            expected.append(flagged(copy.deepcopy(live)))
        found = [flagged(one.context["messages"]) for one in relay.history("r")]
    assert found == expected
