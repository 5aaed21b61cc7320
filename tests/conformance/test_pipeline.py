"""A pipeline goes on where it stopped, and a finished one is not run again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import HandoffStatus, HandoffVerificationError, Pipeline, Relay, Step
from agent_handoff_kit.errors import (
    CallInDoubt,
    RunAlreadyCompleted,
    RunInProgress,
    RunInputMismatch,
    UnknownAgent,
)
from agent_handoff_kit.idempotency import idempotent_tool
from agent_handoff_kit.pipeline import Event
from agent_handoff_kit.runs import current_run


@dataclass
class Ticket:
    ticket_id: str


@dataclass
class Resolved:
    ticket_id: str
    refund: int


class Steps:
    """Three agents that count their calls; ``broken`` ones fail."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.broken: set[str] = set()

    def enter(self, name: str) -> None:
        self.calls.append(name)
        run = current_run()
        assert run is not None and run.run_id == "r"
        if name in self.broken:
            raise TimeoutError(name)

    def triage(self, context: dict[str, Any]) -> Ticket:
        self.enter("triage")
        return Ticket(context["ticket_id"])

    def resolver(self, ticket: Ticket) -> Resolved:
        self.enter("resolver")
        assert isinstance(ticket, Ticket)
        return Resolved(ticket.ticket_id, 500)

    async def resolver_later(self, ticket: Ticket) -> Resolved:
        await asyncio.sleep(0)
        return self.resolver(ticket)

    def closer(self, resolved: Resolved) -> tuple[str, int]:
        self.enter("closer")
        assert isinstance(resolved, Resolved)
        return resolved.ticket_id, resolved.refund


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    with Relay(tmp_path / "run.db") as one:
        yield one


@pytest.fixture
def steps() -> Steps:
    return Steps()


def pipeline(relay: Relay, steps: Steps, *, later: bool = False) -> Pipeline:
    resolver = steps.resolver_later if later else steps.resolver
    return Pipeline(
        relay,
        [
            Step("triage", steps.triage, required_keys=["ticket_id"]),
            Step("resolver", resolver, required_keys=["ticket_id"], schema=Ticket),
            Step("closer", steps.closer, required_keys=["refund"]),
        ],
    )


def run(relay: Relay, steps: Steps, later: bool, **options: Any) -> Any:
    made = pipeline(relay, steps, later=later)
    if later:
        return asyncio.run(made.arun("r", {"ticket_id": "T-1"}, **options))
    return made.run("r", {"ticket_id": "T-1"}, **options)


both = pytest.mark.parametrize("later", [False, True], ids=["blocking", "awaitable"])


@both
def test_a_pipeline_gives_the_result_of_its_last_step(relay: Relay, steps: Steps, later: bool) -> None:
    assert run(relay, steps, later) == ("T-1", 500)
    assert steps.calls == ["triage", "resolver", "closer"]
    assert [one.status for one in relay.history("r")] == [HandoffStatus.VERIFIED, HandoffStatus.RECOVERED]


@both
def test_a_finished_run_returns_its_stored_result(relay: Relay, steps: Steps, later: bool) -> None:
    assert run(relay, steps, later) == run(relay, steps, later) == ("T-1", 500)
    assert steps.calls == ["triage", "resolver", "closer"]


@both
@pytest.mark.parametrize("broken", ["triage", "resolver", "closer"])
def test_the_same_call_after_a_failure_goes_on_at_the_step_that_failed(
    relay: Relay, steps: Steps, later: bool, broken: str
) -> None:
    steps.broken = {broken}
    with pytest.raises(TimeoutError, match=broken):
        run(relay, steps, later)
    assert relay.run_status("r") == "open"
    steps.broken = set()
    assert run(relay, steps, later) == ("T-1", 500)
    assert sorted(steps.calls) == sorted(["triage", "resolver", "closer", broken])


def test_a_step_does_not_start_on_a_context_that_failed(relay: Relay, steps: Steps) -> None:
    made = Pipeline(relay, [Step("triage", steps.triage), Step("resolver", steps.resolver, required_keys=["summary"])])
    for _ in range(2):
        with pytest.raises(HandoffVerificationError, match="summary"):
            made.run("r", {"ticket_id": "T-1"})
    assert steps.calls == ["triage", "triage"]
    with pytest.raises(HandoffVerificationError, match="ticket_id"):
        pipeline(relay, steps).run("r2", {})
    assert steps.calls == ["triage", "triage"]


def test_a_run_is_called_again_with_the_same_input(relay: Relay, steps: Steps) -> None:
    steps.broken = {"triage"}
    made = pipeline(relay, steps)
    with pytest.raises(TimeoutError):
        made.run("r", {"ticket_id": "T-1", "trace": 1})
    with pytest.raises(RunInputMismatch):
        made.run("r", {"ticket_id": "T-2", "trace": 1})
    with pytest.raises(TimeoutError):
        made.run("r", {"trace": 1, "ticket_id": "T-1"})


def test_the_input_may_be_compared_by_a_key(relay: Relay, steps: Steps) -> None:
    made = pipeline(relay, steps)
    steps.broken = {"triage"}
    with pytest.raises(TimeoutError):
        made.run("r", {"ticket_id": "T-1", "trace": 1}, input_key=ticket_of)
    steps.broken = set()
    assert made.run("r", {"ticket_id": "T-1", "trace": 2}, input_key=ticket_of) == ("T-1", 500)


def ticket_of(context: dict[str, Any]) -> Any:
    return context["ticket_id"]


def test_an_owned_run_is_in_progress_for_others(relay: Relay, steps: Steps, tmp_path: Path) -> None:
    with Relay(tmp_path / "run.db") as other, other.run("r"), pytest.raises(RunInProgress):
        pipeline(relay, steps).run("r", {"ticket_id": "T-1"})
    assert steps.calls == []


def test_an_open_run_whose_newest_checkpoint_is_recovered_is_not_started_again(relay: Relay, steps: Steps) -> None:
    checkpoint = relay.handoff("r", "triage", "resolver", {"ticket_id": "T-1"})
    relay.store.update_status(checkpoint.checkpoint_id, HandoffStatus.RECOVERED)
    with pytest.raises(RunAlreadyCompleted):
        pipeline(relay, steps).run("r", {"ticket_id": "T-1"})
    assert steps.calls == []


def test_a_step_that_is_gone_is_named(relay: Relay, steps: Steps) -> None:
    relay.handoff("r", "triage", "auditor", {"ticket_id": "T-1"})
    with pytest.raises(UnknownAgent) as caught:
        pipeline(relay, steps).run("r", {"ticket_id": "T-1"})
    assert (caught.value.name, caught.value.known) == ("auditor", ["triage", "resolver", "closer"])


def test_a_call_in_doubt_is_the_runs_status_until_it_is_settled(relay: Relay, steps: Steps) -> None:
    attempts: list[int] = []

    def refund(order: str) -> str:
        attempts.append(1)
        raise TimeoutError(order)

    tool = idempotent_tool(relay, None, key_fn=lambda order: order)(refund)
    made = Pipeline(relay, [Step("resolver", lambda context: tool(context["order"]))])
    with pytest.raises(TimeoutError):
        made.run("r", {"order": "O-1"})
    for _ in range(2):
        with pytest.raises(CallInDoubt):
            made.run("r", {"order": "O-1"})
    assert relay.run_status("r") == "in_doubt"
    relay.store.resolve_call("r", "O-1", applied=True, result="refunded")
    assert made.run("r", {"order": "O-1"}) == "refunded"
    assert attempts == [1]


def test_a_program_can_show_progress(relay: Relay, steps: Steps) -> None:
    events: list[Event] = []
    steps.broken = {"resolver"}
    with pytest.raises(TimeoutError):
        run(relay, steps, False, on_event=events.append)
    steps.broken = set()
    run(relay, steps, False, on_event=events.append)
    run(relay, steps, False, on_event=events.append)
    assert [(one.kind, one.step) for one in events] == [
        ("started", None),
        ("step_started", "triage"),
        ("step_finished", "triage"),
        ("step_started", "resolver"),
        ("resumed", "resolver"),
        ("step_started", "resolver"),
        ("step_finished", "resolver"),
        ("step_started", "closer"),
        ("step_finished", "closer"),
        ("completed", None),
        ("replayed", None),
    ]
    assert {one.run_id for one in events} == {"r"}


def test_an_async_step_needs_the_awaitable_face(relay: Relay, steps: Steps) -> None:
    with pytest.raises(TypeError, match="resolver"):
        pipeline(relay, steps, later=True).run("r", {"ticket_id": "T-1"})
    assert relay.run_status("r") is None


@pytest.mark.parametrize("names", [[], ["a", "a"]])
def test_steps_have_names_of_their_own(relay: Relay, names: list[str]) -> None:
    with pytest.raises(ValueError, match="steps"):
        Pipeline(relay, [Step(name, dict) for name in names])
