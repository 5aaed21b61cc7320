"""The size limit is that of a whole context, however its bytes are shared out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agent_handoff_kit import Relay, make_handoff_envelope
from agent_handoff_kit.errors import PayloadError


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay(":memory:", max_payload=1000) as one:
        yield one


def envelope(count: int, state: int = 1) -> dict[str, Any]:
    return make_handoff_envelope({"s": "x" * state}, from_agent="a", to_agent="b", messages=["m" * 98] * count)


OVER: dict[str, Any] = {
    "state": lambda relay: relay.handoff("r", "a", "b", {"s": "x" * 1000}),
    "messages": lambda relay: relay.handoff("r", "a", "b", envelope(11)),
    "state and messages": lambda relay: relay.handoff("r", "a", "b", envelope(6, 400)),
    "new messages": lambda relay: relay.handoff("r", "a", "b", {"s": 1}, new_messages=["m" * 98] * 11),
    "state and new messages": lambda relay: relay.handoff("r", "a", "b", {"s": "x" * 400}, new_messages=["m" * 98] * 6),
    "checkpoint": lambda relay: relay.checkpoint("r", "a", "b", envelope(6, 400)),
    "result": lambda relay: relay.complete("r", ["x" * 98] * 11),
}


@pytest.mark.parametrize("way", OVER)
def test_what_is_over_the_limit_as_a_whole_is_refused(relay: Relay, way: str) -> None:
    with pytest.raises(PayloadError, match=r"size limit.*1000 allowed"):
        OVER[way](relay)
    assert relay.history("r") == []
    assert relay.run_status("r") is None


@pytest.mark.parametrize("known", [True, False])
def test_a_list_that_grew_over_the_limit_is_refused_whether_its_beginning_is_known_or_not(
    relay: Relay, known: bool
) -> None:
    for count in (4, 8):
        relay.handoff("r", "a", "b", envelope(count))
    if not known:
        relay.handoff("r", "a", "b", {"s": 1}, new_messages=["m" * 98])
    with pytest.raises(PayloadError, match="size limit"):
        relay.handoff("r", "a", "b", envelope(11))
    assert len(relay.history("r")) == 2 + (not known)


def test_messages_that_are_stored_do_not_count_against_new_ones(relay: Relay) -> None:
    for _ in range(5):
        relay.handoff("r", "a", "b", {"s": 1}, new_messages=["m" * 98] * 5)
    found = relay.recover("r")
    assert found is not None and len(found.context["messages"]) == 25
