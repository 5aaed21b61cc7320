"""The redact hook sees everything that is to be stored, in the form that its documentation says, as a copy."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Relay, make_handoff_envelope
from agent_handoff_kit.errors import CallInDoubt
from agent_handoff_kit.idempotency import idempotent_tool
from agent_handoff_kit.pipeline import Pipeline, Step

SECRET = "4000-1111"


@dataclass
class Ticket:
    card: str
    nested: dict[str, Any]


def masked(value: Any) -> Any:
    """Mask in place: every text that holds the secret."""
    if isinstance(value, str):
        return value.replace(SECRET, "****")
    if isinstance(value, dict):
        for key in value:
            value[key] = masked(value[key])
    elif isinstance(value, list):
        value[:] = [masked(item) for item in value]
    elif isinstance(value, Ticket):
        value.card = masked(value.card)
    return value


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def relay(path: str, seen: list[Any]) -> Iterator[Relay]:
    def hook(value: Any) -> Any:
        seen.append(copy.deepcopy(value))
        return masked(value)

    with Relay(path, redact=hook) as one:
        yield one


def in_the_file(relay: Relay, path: str) -> bool:
    relay.close()
    return any(SECRET.encode() in one.read_bytes() for one in Path(path).parent.iterdir())


MESSAGES = [{"role": "user", "content": f"my card is {SECRET}"}]
STATE = {"card": SECRET, "items": [{"card": SECRET}]}
ENVELOPE = make_handoff_envelope(STATE, from_agent="a", to_agent="b", messages=MESSAGES)


def tool_of(relay: Relay) -> Any:
    @idempotent_tool(relay, "r", lambda: "k")
    def tool() -> Any:
        return {"card": SECRET}

    return tool


def pipeline_of(relay: Relay) -> Any:
    return Pipeline(relay, [Step("one", lambda context: context), Step("two", lambda context: SECRET)])


WAYS: dict[str, Any] = {
    "checkpoint": lambda relay: relay.checkpoint("r", "a", "b", STATE),
    "handoff": lambda relay: relay.handoff("r", "a", "b", STATE),
    "typed context": lambda relay: relay.handoff("r", "a", "b", Ticket(SECRET, {"card": SECRET})),
    "envelope": lambda relay: relay.handoff("r", "a", "b", ENVELOPE),
    "new messages": lambda relay: relay.handoff("r", "a", "b", STATE, new_messages=MESSAGES),
    "complete": lambda relay: relay.complete("r", {"card": SECRET}),
    "text as a result": lambda relay: relay.complete("r", SECRET),
    "guarded": lambda relay: relay.guarded_handoff("r", "a", "b", completes=True)(lambda context: SECRET)(STATE),
    "tool": lambda relay: tool_of(relay)(),
    "pipeline": lambda relay: pipeline_of(relay).run("r", STATE),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_stored_that_redact_took_out(relay: Relay, path: str, way: str) -> None:
    before = copy.deepcopy((STATE, MESSAGES, ENVELOPE))
    WAYS[way](relay)
    assert before == (STATE, MESSAGES, ENVELOPE)
    assert not in_the_file(relay, path)


AWAITED: dict[str, Any] = {
    "checkpoint": lambda relay: relay.acheckpoint("r", "a", "b", STATE),
    "new messages": lambda relay: relay.ahandoff("r", "a", "b", STATE, new_messages=MESSAGES),
    "complete": lambda relay: relay.acomplete("r", {"card": SECRET}),
    "pipeline": lambda relay: pipeline_of(relay).arun("r", STATE),
}


@pytest.mark.parametrize("way", AWAITED)
def test_an_awaited_call_stores_as_little(relay: Relay, path: str, way: str) -> None:
    asyncio.run(awaited(AWAITED[way], relay))
    assert not in_the_file(relay, path)


async def awaited(call: Any, relay: Relay) -> Any:
    return await call(relay)


def test_an_envelope_is_seen_with_its_messages_and_the_append_form_with_the_new_ones(
    relay: Relay, seen: list[Any]
) -> None:
    relay.handoff("r", "a", "b", ENVELOPE)
    relay.handoff("r", "a", "b", STATE, new_messages=["new"])
    relay.handoff("r", "a", "b", {**ENVELOPE, "messages": []}, new_messages=["newer"])
    assert [one["messages"] for one in seen] == [MESSAGES, ["new"], ["newer"]]
    assert all(one["state"] == STATE for one in seen)
    found = relay.recover("r")
    assert found is not None
    assert found.context["messages"] == [{"role": "user", "content": "my card is ****"}, "new", "newer"]


def test_a_typed_context_is_seen_as_its_fields_and_the_callers_object_stays(relay: Relay, seen: list[Any]) -> None:
    inner = Ticket(SECRET, {})
    context = Ticket(SECRET, {"inner": inner})
    relay.handoff("r", "a", "b", context)
    assert seen == [{"card": SECRET, "nested": {"inner": inner}}]
    assert (context.card, inner.card) == (SECRET, SECRET)


def test_a_value_that_cannot_be_copied_is_handed_over_as_it_is(relay: Relay) -> None:
    lock = threading.Lock()
    relay.redact = lambda context: {**context, "lock": context["lock"] is lock}
    relay.handoff("r", "a", "b", {"lock": lock})
    found = relay.recover("r")
    assert found is not None and found.context == {"lock": True}


def test_a_hook_that_loses_the_envelope_around_new_messages_is_refused(relay: Relay) -> None:
    relay.redact = lambda context: context["state"]
    with pytest.raises(ValueError, match="redact"):
        relay.handoff("r", "a", "b", STATE, new_messages=MESSAGES)
    assert relay.history("r") == []


def test_the_caller_of_a_tool_gets_what_its_replays_get(relay: Relay) -> None:
    tool = tool_of(relay)
    assert tool() == tool() == {"card": "****"}


def test_a_tool_whose_result_redact_fails_on_is_not_run_again(relay: Relay) -> None:
    calls: list[int] = []

    def bug(value: Any) -> Any:
        raise KeyError("bug")

    relay.redact = bug

    @idempotent_tool(relay, "r", lambda: "k")
    def tool() -> int:
        calls.append(1)
        return 1

    for _ in range(2):
        with pytest.raises(CallInDoubt, match="not kept"):
            tool()
    assert calls == [1]


@pytest.mark.filterwarnings("error::agent_handoff_kit.errors.LossyPayloadWarning")
def test_a_tool_whose_warning_is_an_error_is_not_run_again(relay: Relay) -> None:
    calls: list[int] = []

    @idempotent_tool(relay, "r", lambda: "k")
    def tool() -> Any:
        calls.append(1)
        return 1j

    for _ in range(2):
        with pytest.raises(CallInDoubt, match="not kept"):
            tool()
    assert calls == [1]
