"""An error of the user's own callable reaches the caller as itself, after one call, with nothing written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from agent_handoff_kit import HandoffStatus, Relay
from agent_handoff_kit.idempotency import idempotent_tool


class Faulty:
    """A callable with a bug in it that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.error = TypeError("'NoneType' object is not subscriptable")

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        raise self.error


faulty = Faulty()


@dataclass
class FaultyDataclass:
    n: int

    def __post_init__(self) -> None:
        faulty()


class FaultyModel(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def look(cls, value: int) -> int:
        faulty()
        return value


class FaultyContext:
    def model_dump(self, *args: Any, **kwargs: Any) -> Any:
        return faulty()


@pytest.fixture(autouse=True)
def bug() -> Faulty:
    global faulty
    faulty = Faulty()
    return faulty


def nothing_written(relay: Relay, run_id: str = "r") -> bool:
    return relay.history(run_id) == [] and relay.run_status(run_id) is None


@pytest.mark.parametrize("method", ["handoff", "guarded_handoff"])
@pytest.mark.parametrize("terms", ["check", "dataclass schema", "model schema"])
def test_a_bug_in_what_judges_the_state_is_called_once_and_is_not_taken_for_a_verdict(
    face: Any, bug: Faulty, method: str, terms: str
) -> None:
    every: dict[str, dict[str, Any]] = {
        "check": {"checks": [bug]},
        "dataclass schema": {"schema": FaultyDataclass},
        "model schema": {"schema": FaultyModel},
    }
    options = every[terms]
    with pytest.raises(TypeError) as caught:
        if method == "handoff":
            face.handoff("r", "a", "b", {"n": 1}, **options)
        else:
            guarded = face.relay.guarded_handoff("r", "a", "b", **options)
            face.call(guarded(face.receiver(lambda context: pytest.fail("the receiver started"))), {"n": 1})
    assert caught.value is bug.error
    assert bug.calls == 1
    assert nothing_written(face.relay)


@pytest.mark.parametrize("options", [{"checks": [lambda state: faulty()]}, {"schema": FaultyDataclass}], ids=str)
def test_a_bug_in_what_judges_a_stored_checkpoint_leaves_it_pending(
    face: Any, bug: Faulty, options: dict[str, Any]
) -> None:
    checkpoint = face.checkpoint("r", "a", "b", {"n": 1})
    with pytest.raises(TypeError) as caught:
        face.verify(checkpoint, **options)
    assert caught.value is bug.error
    assert bug.calls == 1
    assert [one.status for one in face.history("r")] == [HandoffStatus.PENDING]
    assert face.verify(checkpoint).status is HandoffStatus.VERIFIED


@pytest.mark.parametrize("awaitable", [False, True])
@pytest.mark.parametrize("method", ["checkpoint", "handoff"])
def test_a_bug_in_redact_is_called_once_and_stores_nothing_unredacted(
    path: str, bug: Faulty, method: str, awaitable: bool
) -> None:
    with Relay(path, redact=bug) as relay:
        with pytest.raises(TypeError) as caught:
            if awaitable:
                asyncio.run(getattr(relay, f"a{method}")("r", "a", "b", {"card": "4000"}))
            else:
                getattr(relay, method)("r", "a", "b", {"card": "4000"})
        assert caught.value is bug.error
        assert bug.calls == 1
        assert nothing_written(relay)


def test_a_bug_in_what_names_the_run_is_called_once_and_the_receiver_does_not_start(face: Any, bug: Faulty) -> None:
    guarded = face.relay.guarded_handoff(bug, "a", "b")
    with pytest.raises(TypeError) as caught:
        face.call(guarded(face.receiver(lambda context: pytest.fail("the receiver started"))), {"n": 1})
    assert caught.value is bug.error
    assert bug.calls == 1


def test_a_bug_in_a_models_own_dump_is_called_once_and_nothing_is_written(face: Any, bug: Faulty) -> None:
    with pytest.raises(TypeError) as caught:
        face.handoff("r", "a", "b", FaultyContext())
    assert caught.value is bug.error
    assert bug.calls == 1
    assert nothing_written(face.relay)


def test_a_bug_in_the_receiver_is_called_once_and_the_checkpoint_stays_verified(face: Any, bug: Faulty) -> None:
    guarded = face.relay.guarded_handoff("r", "a", "b")
    with pytest.raises(TypeError) as caught:
        face.call(guarded(face.receiver(bug)), {"n": 1})
    assert caught.value is bug.error
    assert bug.calls == 1
    assert face.recover("r").status is HandoffStatus.VERIFIED


@pytest.mark.parametrize("place", ["key", "tool"])
def test_a_bug_in_a_key_or_a_tool_is_called_once_and_records_nothing(face: Any, bug: Faulty, place: str) -> None:
    body = bug if place == "tool" else lambda order: pytest.fail("the tool ran")
    key = bug if place == "key" else lambda order: "k"
    tool = idempotent_tool(face.relay, "r", key)(face.receiver(body))
    with pytest.raises(TypeError) as caught:
        face.call(tool, "O-1")
    assert caught.value is bug.error
    assert bug.calls == 1
    assert face.relay.store.get_tool_result("r", "k") is None
