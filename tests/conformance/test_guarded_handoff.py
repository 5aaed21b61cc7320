"""guarded_handoff on every kind of callable."""

from __future__ import annotations

import asyncio
import contextlib
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


def guarded_desk(relay: Relay, run_id: Any) -> type:
    guarded = relay.guarded_handoff(run_id, "a", "b", ["n"])

    class Desk:
        @guarded
        def method(self, context: dict[str, Any]) -> int:
            assert isinstance(self, Desk)
            return int(context["n"]) * 2

        @guarded
        async def later(self, context: dict[str, Any]) -> int:
            return int(context["n"]) * 2

        @classmethod
        @guarded
        def of_the_class(cls, context: dict[str, Any]) -> int:
            assert cls is Desk
            return int(context["n"]) * 2

        @staticmethod
        @guarded
        def inside(context: dict[str, Any]) -> int:
            return int(context["n"]) * 2

        @guarded
        @staticmethod
        def outside(context: dict[str, Any]) -> int:
            return int(context["n"]) * 2

    return Desk


@pytest.mark.parametrize("name", ["method", "later", "of_the_class", "inside", "outside"])
@pytest.mark.parametrize("run_id", ["r", lambda context: context["run"], None])
@pytest.mark.parametrize("named", [False, True])
def test_a_method_is_guarded_where_its_class_is_defined(relay: Relay, name: str, run_id: Any, named: bool) -> None:
    desk = guarded_desk(relay, run_id)()
    if name == "outside":
        desk = type(desk)
    context = {"n": 21, "run": "r"}
    with relay.run("r") if run_id is None else contextlib.nullcontext():
        outcome = getattr(desk, name)(context=context) if named else getattr(desk, name)(context)
        assert (asyncio.run(outcome) if asyncio.iscoroutine(outcome) else outcome) == 42
    found = relay.recover("r")
    assert found is not None and found.context == context


def test_what_is_not_callable_is_refused_at_decoration(relay: Relay) -> None:
    with pytest.raises(TypeError, match="@classmethod"):
        relay.guarded_handoff("r", "a", "b")(classmethod(double))  # type: ignore[arg-type]


def traced(function: Any) -> Any:
    @functools.wraps(function)
    def passing_on(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return passing_on


def test_an_async_receiver_behind_a_plain_decorator_is_guarded_to_its_end(
    relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(context: dict[str, Any]) -> int:
        raise TimeoutError("no answer")

    last = relay.guarded_handoff("r", "a", "b", ["n"], completes=True)
    with pytest.raises(TimeoutError):
        asyncio.run(last(traced(failing))({"n": 21}))
    assert "recover('r')" in caplog.text
    assert asyncio.run(last(traced(double_later))({"n": 21})) == 42
    assert relay.result("r") == 42


def test_a_generator_is_guarded_and_completes_nothing(relay: Relay) -> None:
    def streamed(context: dict[str, Any]) -> Iterator[int]:
        yield int(context["n"])

    assert list(relay.guarded_handoff("r", "a", "b", ["n"])(streamed)({"n": 21})) == [21]
    with pytest.raises(TypeError, match="generator"):
        relay.guarded_handoff("r", "a", "b", completes=True)(streamed)
    hidden = relay.guarded_handoff("r", "a", "b", completes=True)(lambda context: streamed(context))
    with pytest.raises(TypeError, match="generator"):
        hidden({"n": 21})
    assert relay.run_status("r") != "completed"
