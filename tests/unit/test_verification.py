"""A state is judged on keys, schema and checks, and everything wrong is reported."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest
from typing_extensions import TypedDict

from agent_handoff_kit import verification as v


@dataclasses.dataclass
class Ticket:
    ticket_id: int
    note: str = ""


class TicketDict(TypedDict):
    ticket_id: int


def positive(state: Any) -> bool:
    return bool(state["ticket_id"] > 0)


@pytest.fixture(params=[True, False], ids=["pydantic", "plain"])
def adapter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(v, "adapter_for", lambda kind: None)


def test_a_good_state_passes() -> None:
    assert v.judge({"ticket_id": 7, 7: "x"}, ["ticket_id", 7], Ticket, [positive, lambda state: None]).ok


def test_missing_keys_are_listed_in_order() -> None:
    assert v.judge({}, ["b", "a"]).missing == ["b", "a"]


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("schema", [Ticket, TicketDict])
@pytest.mark.parametrize("state", [{}, {"ticket_id": "seven"}])
def test_a_schema_objects_by_field(schema: Any, state: dict[str, Any]) -> None:
    verdict = v.judge(state, (), schema)
    assert len(verdict.reasons) == 1
    assert "ticket_id" in verdict.reasons[0]


def test_a_pydantic_model_objects_by_field() -> None:
    model = pytest.importorskip("pydantic").create_model("Model", ticket_id=(int, ...), name=(str, ...))
    assert len(v.judge({}, (), model).reasons) == 2


def test_all_reasons_are_collected() -> None:
    verdict = v.judge({"ticket_id": -1}, ["x"], None, [positive, lambda state: "too low"])
    assert verdict.missing == ["x"]
    assert verdict.reasons == ["check positive failed", "too low"]
    assert not verdict.ok


def test_an_exception_in_a_check_comes_through() -> None:
    with pytest.raises(KeyError):
        v.judge({}, (), None, [positive])


def test_an_unknown_kind_of_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="schema"):
        v.judge({}, (), int)


def test_names_do_not_depend_on_the_process() -> None:
    assert v.check_name(positive) == "positive"
    assert v.check_name(functools.partial(positive)) == "positive"
    assert v.check_name(Ticket) == "Ticket"
    assert v.check_name(Ticket(1)) == "Ticket"
