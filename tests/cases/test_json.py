"""What JSON cannot say is kept all the same, or refused by name before anything is written."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agent_handoff_kit import Checkpoint, HandoffStatus, HandoffVerificationError, Relay, make_handoff_envelope
from agent_handoff_kit.errors import PayloadError
from agent_handoff_kit.idempotency import idempotent_tool

NOT_JSON = {"score": math.nan, "cap": math.inf, "low": -math.inf}
TEXTS = {"note": "a\x00b", "t": "half \ud83d", "halves": "\ud83d" + "\ude00", "key \ud83d": 1, "k\x00": 2}
KEYS = {"lines": {1: "int", "1": "str"}, "m": {None: 1, (1, 2): 3, True: 4}, "floats": {1.5: "f", "1.5": "s"}}
BAD_IDS = ["r\x00x", "k\ud83dx", "", "r" * 256]


def envelope(state: dict[Any, Any], *messages: Any) -> dict[str, Any]:
    return make_handoff_envelope(state, from_agent="a", to_agent="b", messages=list(messages))


def stored_payloads(path: str) -> list[bytes]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT state FROM checkpoint UNION ALL SELECT messages FROM checkpoint").fetchall()
    connection.close()
    return [bytes(row[0]) for row in rows if row[0]]


def spelled(value: Any) -> Any:
    """Keys and values with their types, in whatever order."""
    return sorted((repr(key), spelled(item)) for key, item in value.items()) if isinstance(value, dict) else repr(value)


def is_valid_json(data: bytes) -> bool:
    connection = sqlite3.connect(":memory:")
    (answer,) = connection.execute("SELECT json_valid(?)", (data.decode(),)).fetchone()
    connection.close()
    return bool(answer)


@pytest.mark.parametrize("state", [NOT_JSON, TEXTS, KEYS], ids=["not a number", "odd text", "keys that look alike"])
def test_values_that_json_cannot_say_come_back_and_the_stored_bytes_are_valid_json(
    face: Any, path: str, state: dict[str, Any]
) -> None:
    face.verify(face.checkpoint("flat", "a", "b", state, list(state)))
    face.handoff("talk", "a", "b", envelope(state, state), list(state))
    with Relay(path) as later:
        flat, talk = later.recover("flat"), later.recover("talk")
    assert flat is not None and talk is not None
    (message,) = talk.context["messages"]
    assert spelled(flat.context) == spelled(talk.context["state"]) == spelled(message) == spelled(state)
    payloads = stored_payloads(path)
    assert len(payloads) == 3
    assert all(map(is_valid_json, payloads))


@pytest.mark.parametrize("keys", [[7], [None], [(1, 2)], [True], ["a\x00b"], ["half \ud83d"]], ids=ascii)
def test_what_was_verified_before_saving_is_verified_after_recovery(face: Any, path: str, keys: list[Any]) -> None:
    face.verify(face.checkpoint("r", "a", "b", {keys[0]: "x"}, keys))
    with Relay(path) as later:
        found = later.recover("r")
        assert found is not None
        assert found.required_keys == keys
        again = later.handoff("copy", "a", "b", found.context, found.required_keys)
    assert again.status is HandoffStatus.VERIFIED


@pytest.mark.parametrize("bad", BAD_IDS, ids=ascii)
@pytest.mark.parametrize("field", ["run_id", "from_agent", "to_agent", "checkpoint_id"])
def test_an_unusable_name_is_refused_by_its_field_and_the_store_stays_usable(face: Any, field: str, bad: str) -> None:
    names = {"run_id": "r", "from_agent": "a", "to_agent": "b", "checkpoint_id": "op", field: bad}
    for method in (face.checkpoint, face.handoff):
        with pytest.raises(PayloadError) as caught:
            method(names["run_id"], names["from_agent"], names["to_agent"], {"n": 1}, op_id=names["checkpoint_id"])
        assert caught.value.path == field
        str(caught.value).encode()
    assert face.history("r") == []
    assert face.handoff("r", "a", "b", {"n": 2}).seq == 1


@pytest.mark.parametrize("bad", ["r\x00x", "k\ud83dx"], ids=ascii)
@pytest.mark.parametrize("name", ["recover", "history", "run_status", "result", "complete", "prune"])
def test_asking_for_an_unusable_run_id_is_refused_by_its_field(face: Any, name: str, bad: str) -> None:
    with pytest.raises(PayloadError, match="run_id"):
        getattr(face, name)(bad)


def test_verifying_an_unusable_checkpoint_id_is_refused_by_its_field(face: Any) -> None:
    with pytest.raises(PayloadError, match="checkpoint_id"):
        face.verify(Checkpoint("r", "a", "b", {}, [], checkpoint_id="c\ud83d"))


STORE_CALLS: dict[str, Callable[[Relay, str], Any]] = {
    "update_status": lambda relay, bad: relay.store.update_status(bad, HandoffStatus.FAILED),
    "last_good_checkpoint": lambda relay, bad: relay.store.last_good_checkpoint(bad),
    "history": lambda relay, bad: relay.store.history(bad),
    "set_run_status": lambda relay, bad: relay.store.set_run_status(bad, "open"),
    "get_run_status": lambda relay, bad: relay.store.get_run_status(bad),
    "get_tool_result": lambda relay, bad: relay.store.get_tool_result(bad, "k"),
    "save_tool_result": lambda relay, bad: relay.store.save_tool_result("r", "k", bad, 1),
}


@pytest.mark.parametrize("name", STORE_CALLS)
def test_the_store_refuses_unusable_ids_with_an_error_of_the_kit(face: Any, name: str) -> None:
    with pytest.raises(PayloadError):
        STORE_CALLS[name](face.relay, "r\ud83d")


@pytest.mark.parametrize("bad", ["k\ud83dx", "k\x00x", "k" * 256], ids=ascii)
def test_an_unusable_tool_key_is_refused_by_name_before_the_tool_runs(face: Any, bad: str) -> None:
    tool = idempotent_tool(face.relay, "r", lambda order: bad)(face.receiver(lambda order: pytest.fail("it ran")))
    with pytest.raises(PayloadError, match="key"):
        face.call(tool, "O-1")


@pytest.mark.parametrize("reason", ["half \ud83d", "a\x00b"], ids=ascii)
def test_a_reason_in_odd_text_is_a_refused_handoff_that_is_kept_as_failed(face: Any, reason: str) -> None:
    with pytest.raises(HandoffVerificationError) as caught:
        face.handoff("r", "a", "b", {"n": 1}, checks=[lambda state: reason])
    assert caught.value.reasons == [reason]
    pending = face.checkpoint("r", "a", "b", {"n": 1})
    with pytest.raises(HandoffVerificationError):
        face.verify(pending, checks=[lambda state: reason])
    assert [one.status for one in face.history("r")] == [HandoffStatus.FAILED] * 2


def cycle() -> tuple[Any, str]:
    loop: dict[str, Any] = {"k": 1}
    loop["self"] = loop
    return loop, "cycle"


def deep() -> tuple[Any, str]:
    value: dict[str, Any] = {}
    for _ in range(5000):
        value = {"d": value}
    return value, "deep"


@dataclass
class Node:
    next: Any = None


def cycle_of_objects() -> tuple[Any, str]:
    node = Node()
    node.next = Node(node)
    return {"node": node}, "cycle"


@pytest.mark.parametrize("make", [cycle, deep, cycle_of_objects])
@pytest.mark.parametrize("place", ["state", "messages", "new_messages", "result", "tool"])
def test_a_cycle_or_a_very_deep_value_is_refused_with_its_path_and_nothing_is_half_written(
    face: Any, make: Callable[[], tuple[Any, str]], place: str
) -> None:
    value, word = make()
    calls: dict[str, Callable[[], Any]] = {
        "state": lambda: face.handoff("r", "a", "b", value),
        "messages": lambda: face.handoff("r", "a", "b", envelope({}, value)),
        "new_messages": lambda: face.handoff("r", "a", "b", {}, new_messages=[value]),
        "result": lambda: face.complete("r", value),
        "tool": lambda: face.relay.store.save_tool_result("r", "k", "tool", value),
    }
    with pytest.raises(PayloadError) as caught:
        calls[place]()
    assert word in str(caught.value)
    assert caught.value.path.startswith({"state": "$", "tool": "result"}.get(place, place.removeprefix("new_")))
    assert (face.history("r"), face.run_status("r"), face.relay.store.get_tool_result("r", "k")) == ([], None, None)
    assert face.handoff("r", "a", "b", {"n": 1}).seq == 1


def test_a_shared_value_is_no_cycle(face: Any) -> None:
    shared = {"x": [1, (2,)]}
    face.handoff("r", "a", "b", envelope({"p": shared, "q": [shared, shared]}, shared, shared))
    found = face.recover("r").context
    assert found["state"] == {"p": shared, "q": [shared, shared]}
    assert found["messages"] == [shared, shared]


LOOKALIKES: list[dict[str, Any]] = [
    {"order_id": 7, "state": {"code": "CA"}, "meta": {"v": 1}},
    {"order_id": 7, "state": {"code": "CA"}, "messages": ["m"], "meta": {"from_agent": "a", "to_agent": "b"}},
    {"order_id": 7, "$ahk": "dec", "v": "1.0"},
    {"order_id": 7, "nested": {"$ahk": {"$ahk": "tuple", "v": [1]}}},
]


@pytest.mark.parametrize("context", LOOKALIKES, ids=["state and meta", "all of an envelope", "tag", "nested tags"])
def test_application_data_that_looks_like_a_wrapper_stays_application_data(face: Any, context: dict[str, Any]) -> None:
    guarded = face.relay.guarded_handoff("r", "a", "b", ["order_id"])
    assert face.call(guarded(face.receiver(lambda given: given["order_id"])), context) == 7
    assert face.recover("r").context == context
