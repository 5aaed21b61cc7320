"""The application's context of a run: restored into the caller's own object, or refused before anything is paid for."""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from agents import RunContextWrapper, function_tool
from agents.tool_context import ToolContext
from pydantic import BaseModel, ConfigDict

from agent_handoff_kit import HandoffStatus, Relay
from agent_handoff_kit.errors import HandoffVerificationError, PayloadError
from tests.support.pair import RESOLVERS_FIRST, pair, provider, resume, run


@dataclass
class Ticket:
    number: int = 7
    notes: list[str] = field(default_factory=list[str])


@dataclass
class Slotted:
    __slots__ = ("notes", "number")
    number: int
    notes: list[str]


@dataclass
class Basket:
    ticket: Ticket = field(default_factory=Ticket)
    pair: tuple[int, int] = (1, 2)

    @property
    def notes(self) -> list[str]:
        return self.ticket.notes


class Model(BaseModel):
    number: int = 7
    notes: list[str] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    notes: list[str] = []


class Service:
    """A context that holds what cannot be stored."""

    def __init__(self) -> None:
        self.connection = object()
        self.notes: list[str] = []


def loaded(service: Service, kept: dict[str, Any]) -> None:
    service.notes = kept["notes"]


OF_SERVICE: dict[str, Any] = {"dump": lambda service: {"notes": service.notes}, "load": loaded}
CONTEXTS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "dict": (lambda: {"number": 7, "notes": []}, {}),
    "ordered_dict": (lambda: OrderedDict(number=7, notes=[]), {}),
    "default_dict": (lambda: defaultdict(list, {"notes": []}), {}),
    "dataclass": (Ticket, {}),
    "slotted_dataclass": (lambda: Slotted(7, []), {}),
    "nested_dataclass": (Basket, {}),
    "pydantic": (Model, {}),
    "pydantic_with_more": (lambda: Open.model_validate({"more": {"n": 1}}), {}),
    "dump_and_load": (Service, OF_SERVICE),
    "wrapped": (lambda: RunContextWrapper(Ticket()), {}),
}


def notes_of(context: Any) -> list[str]:
    held: Any = context.context if isinstance(context, RunContextWrapper) else context
    notes: list[str] = held["notes"] if isinstance(held, dict) else held.notes
    return notes


def noting(seen: list[Any]) -> Any:
    @function_tool
    async def note(ctx: ToolContext[Any], text: str) -> str:
        """Note something."""
        seen.append(ctx.context)
        notes_of(ctx.context).append(text)
        return text

    return note


@pytest.mark.parametrize("lost", range(4))
@pytest.mark.parametrize("make, options", CONTEXTS.values(), ids=CONTEXTS)
def test_a_context_is_restored_into_the_callers_own_object(
    relay: Relay, make: Callable[[], Any], options: dict[str, Any], lost: int
) -> None:
    asked = provider(lost=[lost])
    with pytest.raises(ConnectionError):
        run(relay, pair(asked, [noting([])]), context=make(), **options)
    seen: list[Any] = []
    context, undisturbed = make(), make()
    result = run(relay, pair(asked, [noting(seen)]), context=context, **options)
    own = context.context if isinstance(context, RunContextWrapper) else context
    assert result.context_wrapper.context is own
    assert all(one is own for one in seen)
    notes_of(undisturbed).extend(["a", "b"])
    assert notes_of(context) == ["a", "b"]
    if make is not Service and not isinstance(context, RunContextWrapper):
        assert context == undisturbed


@dataclass(frozen=True)
class Frozen:
    number: int = 7


class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True)
    number: int = 7


@pytest.mark.parametrize("context", [Frozen(), FrozenModel(), Service(), [1], "text", 7], ids=repr)
def test_a_context_that_cannot_be_restored_is_refused_before_the_first_model_call(relay: Relay, context: Any) -> None:
    asked = provider()
    with pytest.raises(TypeError, match=type(context).__name__):
        run(relay, pair(asked, []), context=context)
    assert asked.asked == []
    assert relay.run_status("r") is None


UNSTORABLE: Any = object()


@pytest.mark.parametrize("context", [{"a": {"b": UNSTORABLE}}, Ticket(notes=[UNSTORABLE])], ids=["dict", "dataclass"])
def test_a_value_that_cannot_be_stored_is_refused_with_its_path(relay: Relay, context: Any) -> None:
    asked = provider()
    with pytest.raises(PayloadError, match=r"context\.(a\.b|notes\[0\])"):
        run(relay, pair(asked, []), context=context)
    assert asked.asked == []


@pytest.mark.parametrize("error", [ValueError("dump is broken"), RuntimeError("dump is broken")], ids=repr)
@pytest.mark.parametrize("good", [1, 3])
def test_a_dump_that_fails_ends_the_run_and_is_not_told_to_the_model(relay: Relay, error: Exception, good: int) -> None:
    asked = provider()
    dumps: list[Any] = []

    def dump(service: Service) -> dict[str, Any]:
        dumps.append(service)
        if len(dumps) > good:
            raise error
        return {"notes": service.notes}

    with pytest.raises(PayloadError, match="dump is broken") as failed:
        run(relay, pair(asked, [noting([])]), context=Service(), dump=dump, load=loaded)
    assert failed.value.__cause__ is error
    assert len(asked.asked) <= 1
    assert relay.run_status("r") == "open"


class Changed(BaseModel):
    """What the model of a context became between two releases."""

    number: str
    notes: list[str] = []


def refusing(service: Service, kept: dict[str, Any]) -> None:
    raise ValueError("load is broken")


@pytest.mark.parametrize(
    "context, options",
    [(Changed(number="seven"), {}), (Service(), {**OF_SERVICE, "load": refusing})],
    ids=["changed_type", "failing_load"],
)
def test_a_context_that_does_not_take_what_was_kept_is_refused_before_a_model_call(
    relay: Relay, context: Any, options: dict[str, Any]
) -> None:
    asked = provider(lost=[RESOLVERS_FIRST])
    with pytest.raises(ConnectionError):
        run(relay, pair(asked, [noting([])]), context=Model())
    before = len(asked.asked)
    with pytest.raises(PayloadError, match="could not be restored"):
        run(relay, pair(asked, [noting([])]), context=context, **options)
    assert len(asked.asked) == before


def test_dump_without_load_is_refused(relay: Relay) -> None:
    with pytest.raises(TypeError, match="load"):
        run(relay, pair(provider(), []), context=Service(), dump=OF_SERVICE["dump"])


def test_a_run_that_failed_verification_goes_on_with_an_updated_context(relay: Relay) -> None:
    asked = provider()
    keys = {"required_keys": {"Resolver": ["approval"]}}
    context: dict[str, Any] = {"notes": []}
    with pytest.raises(HandoffVerificationError):
        run(relay, pair(asked, [noting([])]), context=context, **keys)
    assert len(asked.asked) == RESOLVERS_FIRST
    fresh: dict[str, Any] = {}
    result = resume(
        relay,
        pair(asked, [noting([])]),
        context=fresh,
        update_context=lambda held: held.update(approval="yes"),
        **keys,
    )
    assert result.final_output == "Done."
    assert fresh == {"notes": ["a", "b"], "approval": "yes"}
    assert [one.agent for one in asked.asked] == ["Triage"] * 2 + ["Resolver"] * 2
    assert [one.status for one in relay.history("r")] == [HandoffStatus.FAILED, HandoffStatus.RECOVERED]


def test_an_update_happens_once_where_the_replay_ends(relay: Relay) -> None:
    asked = provider(lost=[RESOLVERS_FIRST + 1])
    with pytest.raises(ConnectionError):
        run(relay, pair(asked, [noting([])]), context={"notes": []})
    updates: list[Any] = []
    resume(relay, pair(asked, [noting([])]), update_context=lambda held: updates.append(copy.deepcopy(held)))
    assert updates == [{"notes": ["a", "b"]}]


def test_without_a_context_there_is_none_after_a_resume(relay: Relay) -> None:
    @function_tool
    async def note(text: str) -> str:
        """Note something."""
        return text

    asked = provider(lost=[RESOLVERS_FIRST])
    result = run(relay, pair(asked, [note]), max_resume_attempts=1)
    assert (result.final_output, result.context_wrapper.context) == ("Done.", None)
