"""guarded_handoff on every kind of callable."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import Any

import pytest

from agent_handoff_kit import HandoffStatus, HandoffVerificationError, Relay
from agent_handoff_kit.errors import PayloadError, RunAlreadyCompleted
from agent_handoff_kit.runs import current_run


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay(":memory:") as one:
        yield one


def double(context: dict[str, Any], factor: int = 2) -> int:
    return int(context["n"]) * factor


async def double_later(context: dict[str, Any], factor: int = 2) -> int:
    return int(context["n"]) * factor


class Doubler:
    def method(self, context: dict[str, Any]) -> int:
        return int(context["n"]) * 2

    def __call__(self, context: dict[str, Any]) -> int:
        return int(context["n"]) * 2


class LaterDoubler:
    async def __call__(self, context: dict[str, Any]) -> int:
        return int(context["n"]) * 2


@pytest.mark.parametrize(
    "receiver",
    [
        double,
        double_later,
        functools.partial(double, factor=2),
        functools.partial(double_later, factor=2),
        Doubler().method,
        Doubler(),
        LaterDoubler(),
    ],
)
def test_every_kind_of_callable_is_guarded(relay: Relay, receiver: Any) -> None:
    guarded = relay.guarded_handoff("r", "a", "b", ["n"])(receiver)
    outcome = guarded({"n": 21})
    assert (asyncio.run(outcome) if asyncio.iscoroutine(outcome) else outcome) == 42
    found = relay.recover("r")
    assert found is not None and found.context == {"n": 21}


def test_the_receiver_does_not_start_on_a_context_that_failed(relay: Relay) -> None:
    started: list[Any] = []
    with pytest.raises(HandoffVerificationError):
        relay.guarded_handoff("r", "a", "b", ["n"])(started.append)({})
    assert started == []


def test_a_failing_body_leaves_the_checkpoint_verified(relay: Relay) -> None:
    @relay.guarded_handoff(run_id="r", from_agent="a", to_agent="b", required_keys=["n"])
    def resolver(context: dict[str, Any]) -> None:
        raise TimeoutError("billing is down")

    with pytest.raises(TimeoutError):
        resolver(context={"n": 1})
    found = relay.recover("r")
    assert found is not None and found.status is HandoffStatus.VERIFIED


def test_the_run_id_may_come_from_the_context(relay: Relay) -> None:
    relay.guarded_handoff(lambda context: str(context["id"]), "a", "b")(dict)({"id": "T-9"})
    assert relay.recover("T-9") is not None


def test_the_last_step_completes_the_run(relay: Relay) -> None:
    closer = relay.guarded_handoff("r", "a", "b", completes=True)(double)
    assert closer({"n": 2}) == 4
    assert (relay.run_status("r"), relay.result("r")) == ("completed", 4)
    with pytest.raises(RunAlreadyCompleted):
        closer({"n": 2})


@pytest.mark.parametrize("arguments", [(), (7,)])
def test_a_call_without_a_usable_context_is_a_type_error(relay: Relay, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        relay.guarded_handoff("r", "a", "b")(double)(*arguments)
    assert relay.history("r") == []


def test_the_run_may_be_the_one_being_run(relay: Relay) -> None:
    guarded = relay.guarded_handoff(None, "a", "b")(double)
    later = relay.guarded_handoff(None, "a", "b")(double_later)

    async def scenario() -> None:
        with relay.run("r2"):
            await asyncio.gather(later({"n": 2}), later({"n": 3}))

    with relay.run("r1") as run:
        assert current_run() == run
        guarded({"n": 1})
        asyncio.run(scenario())
    assert current_run() is None
    assert [len(relay.history(name)) for name in ("r1", "r2")] == [1, 2]
    with pytest.raises(ValueError, match=r"relay\.run"):
        guarded({"n": 1})


def test_a_run_scope_checks_its_id(relay: Relay) -> None:
    with pytest.raises(PayloadError), relay.run(""):
        pass
