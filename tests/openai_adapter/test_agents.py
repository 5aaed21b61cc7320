"""Which agent a run goes on with: of one name, made on the fly, gone, copied, or named by an older checkpoint."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agents import Agent, Handoff, ModelSettings, function_tool, handoff

from agent_handoff_kit import HandoffStatus, Relay
from agent_handoff_kit.errors import RunInputMismatch, UnknownAgent
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.outputs import call, handover, message
from tests.support.pair import run
from tests.support.provider import Provider

Scripts = dict[str, Sequence[Sequence[Any]]]
PAIR: Scripts = {"Triage": [[handover("Resolver", "h1")]], "Resolver": [[message("Done.")]]}


@dataclasses.dataclass
class Refund:
    order: str
    cents: int


def agent(asked: Provider, name: str, model: str | None = None, **given: Any) -> Agent[Any]:
    return Agent[Any](name=name, model=asked.model(model or name), **given)


def made_on_the_fly(name: str, make: Callable[[], Agent[Any]]) -> Handoff[Any, Agent[Any]]:
    """A handoff whose receiver exists only once it happens."""

    async def invoked(ctx: Any, arguments: str) -> Agent[Any]:
        return make()

    return Handoff(
        tool_name="transfer_to_resolver",
        tool_description="Hand over.",
        input_json_schema={},
        on_invoke_handoff=invoked,
        agent_name=name,
    )


def on_the_fly(asked: Provider) -> Agent[Any]:
    entry = made_on_the_fly("Resolver", lambda: agent(asked, "Resolver"))
    return agent(asked, "Triage", handoffs=[entry])


def test_an_agent_made_on_the_fly_is_resumed_in_the_same_call(relay: Relay) -> None:
    asked = Provider(PAIR, lost=[1])
    assert run(relay, on_the_fly(asked), max_resume_attempts=1).final_output == "Done."
    assert [one.agent for one in asked.asked] == ["Triage", "Resolver", "Resolver"]


def test_an_agent_made_on_the_fly_is_found_in_another_process_through_agents_only(relay: Relay) -> None:
    asked = Provider(PAIR, lost=[1])
    with pytest.raises(ConnectionError):
        run(relay, on_the_fly(asked))
    with pytest.raises(UnknownAgent) as unknown:
        run(relay, on_the_fly(asked), agents={"Closer": agent(asked, "Closer")})
    assert (unknown.value.name, unknown.value.known) == ("Resolver", ["Triage", "Closer"])
    with pytest.raises(UnknownAgent):
        run(relay, on_the_fly(asked), agents=lambda name: None)
    assert len(asked.asked) == 2
    assert relay.run_status("r") == "open"
    names: list[str] = []

    def found(name: str) -> Agent[Any]:
        names.append(name)
        return agent(asked, name)

    assert run(relay, on_the_fly(asked), agents=found).final_output == "Done."
    assert names == ["Resolver"]
    assert [one.agent for one in asked.asked] == ["Triage", "Resolver", "Resolver"]


def test_an_agent_made_on_the_fly_is_not_taken_for_one_of_its_name_in_the_graph(relay: Relay) -> None:
    scripts: Scripts = {"Triage": [[handover("Resolver", "h1")]], "Made": [[message("Made.")]], "Resolver": []}
    asked = Provider(scripts, lost=[1])

    def build() -> Agent[Any]:
        entry = made_on_the_fly("Resolver", lambda: agent(asked, "Resolver", "Made"))
        other = handoff(agent(asked, "Resolver"), tool_name_override="transfer_to_the_other")
        return agent(asked, "Triage", handoffs=[entry, other])

    with pytest.raises(ConnectionError):
        run(relay, build())
    with pytest.raises(UnknownAgent) as unknown:
        run(relay, build())
    assert (unknown.value.name, unknown.value.known) == ("Resolver#2", ["Triage", "Resolver"])
    result = run(relay, build(), agents={"Resolver#2": agent(asked, "Resolver", "Made")})
    assert result.final_output == "Made."


@pytest.mark.parametrize("to", [1, 2])
@pytest.mark.parametrize("resumes", [0, 1], ids=["new_process", "resumed"])
def test_of_two_agents_of_one_name_the_right_one_is_resumed(relay: Relay, to: int, resumes: int) -> None:
    scripts: Scripts = {
        "Triage": [[call(f"transfer_{to}", "h1")]],
        "1": [[message("First.")]],
        "2": [[message("Second.")]],
    }
    asked = Provider(scripts, lost=[1])

    def build() -> Agent[Any]:
        both = [
            handoff(agent(asked, "Resolver", str(number)), tool_name_override=f"transfer_{number}") for number in (1, 2)
        ]
        return agent(asked, "Triage", handoffs=both)

    for _ in range(2 - resumes):
        try:
            result = run(relay, build(), max_resume_attempts=resumes)
        except ConnectionError:
            continue
        assert result.final_output == ["First.", "Second."][to - 1]
        assert [one.agent for one in asked.asked] == ["Triage", str(to), str(to)]
        return
    pytest.fail("the run never ended")


def test_a_renamed_receiver_is_missed_before_any_model_call_and_listed_is_who_there_is(relay: Relay) -> None:
    asked = Provider(PAIR, lost=[1])
    with pytest.raises(ConnectionError):
        run(relay, agent(asked, "Triage", handoffs=[agent(asked, "Resolver")]))
    with pytest.raises(UnknownAgent) as unknown:
        run(relay, agent(asked, "Triage", handoffs=[agent(asked, "Solver")]))
    assert (unknown.value.name, unknown.value.known) == ("Resolver", ["Triage", "Solver"])
    assert len(asked.asked) == 2
    assert run(relay, agent(asked, "Triage", handoffs=[agent(asked, "Resolver")])).final_output == "Done."


def test_the_result_is_told_by_the_last_agents_output_type(relay: Relay) -> None:
    scripts: Scripts = {**PAIR, "Resolver": [[message('{"response": {"order": "77", "cents": 500}}')]]}
    asked = Provider(scripts)

    def build() -> Agent[Any]:
        return agent(asked, "Triage", handoffs=[agent(asked, "Resolver", output_type=Refund)])

    assert run(relay, build()).final_output == Refund("77", 500)
    assert asyncio.run(DurableRunner.result(relay, "r", build())) == Refund("77", 500)
    assert asyncio.run(DurableRunner.result(relay, "other", build())) is None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_model_that_served_a_run_answers_for_itself(relay: Relay, copied: Any) -> None:
    first = Provider({"Triage": [[message("First.")]]})
    model = first.model("Triage")
    run(relay, Agent[Any](name="Triage", model=model))
    second = Provider({"Triage": [[message("Second.")]]})
    copy_of_model: Any = copied(model)
    copy_of_model._provider = second
    with Relay(":memory:") as other:
        result = run(other, Agent[Any](name="Triage", model=copy_of_model))
    assert result.final_output == "Second."
    assert (len(first.asked), len(second.asked)) == (1, 1)


def test_a_clone_of_an_agent_is_another_agent(relay: Relay) -> None:
    scripts: Scripts = {
        "Triage": [[handover("Resolver", "h1")], [handover("Resolver", "h2")]],
        "Resolver": [[message("Done.")], [message("Done.")]],
    }
    asked = Provider(scripts)
    triage = agent(asked, "Triage", handoffs=[agent(asked, "Resolver")])
    assert run(relay, triage).final_output == "Done."
    with Relay(":memory:") as other:
        clone = triage.clone(model_settings=ModelSettings(tool_choice="required"))
        assert run(other, clone).final_output == "Done."
        assert [one.to_agent for one in other.history("r")] == ["Resolver"]
    assert [one.tool_choice for one in asked.asked] == [None, None, "required", None]


def test_a_checkpoint_made_by_a_tool_is_no_place_to_resume_at(relay: Relay) -> None:
    @function_tool
    async def note(text: str) -> str:
        """Note something."""
        await relay.ahandoff("r", "tool", "archive", {"text": text})
        return text

    scripts: Scripts = {
        "Triage": [[handover("Resolver", "h1")]],
        "Resolver": [[call("note", "r1", text="a")], [message("Done.")]],
    }
    asked = Provider(scripts, lost=[2])

    def build() -> Agent[Any]:
        return agent(asked, "Triage", handoffs=[agent(asked, "Resolver", tools=[note])])

    with pytest.raises(ConnectionError):
        run(relay, build())
    assert run(relay, build()).final_output == "Done."
    assert [one.agent for one in asked.asked] == ["Triage", "Resolver", "Resolver", "Resolver"]
    assert [one.to_agent for one in relay.history("r")] == ["Resolver", "archive"]


def older(relay: Relay, state: dict[str, Any]) -> None:
    """A checkpoint of a run that no runner of this release has started."""
    relay.verify(relay.checkpoint("r", "triage", "resolver", state, ["ticket_id"]))


@pytest.mark.parametrize("lost", [[], [0]], ids=["undisturbed", "new_process"])
def test_a_run_that_was_checkpointed_before_its_first_call_goes_on_at_its_receiver(
    relay: Relay, lost: list[int]
) -> None:
    older(relay, {"ticket_id": "T-1"})
    asked = Provider({"Resolver": [[message("Done.")]], "Triage": []}, lost)

    def build() -> dict[str, Any]:
        return {"agents": {"Resolver": agent(asked, "Resolver")}, "context": {}}

    for _ in lost:
        with pytest.raises(ConnectionError):
            run(relay, agent(asked, "Triage"), **build())
    given = build()
    assert run(relay, agent(asked, "Triage"), **given).final_output == "Done."
    assert [one.agent for one in asked.asked] == ["Resolver"] * (1 + len(lost))
    assert all('{"ticket_id": "T-1"}' in one.input[0]["content"] for one in asked.asked)
    assert given["context"] == {"ticket_id": "T-1"}
    assert [one.status for one in relay.history("r")] == [HandoffStatus.RECOVERED]


def test_such_a_run_still_knows_its_input(relay: Relay) -> None:
    older(relay, {"ticket_id": "T-1"})
    asked = Provider({"Resolver": [[message("Done.")]]}, [0])
    agents = {"resolver": agent(asked, "Resolver")}
    with pytest.raises(ConnectionError):
        run(relay, agent(asked, "Triage"), agents=agents)
    with pytest.raises(RunInputMismatch):
        asyncio.run(DurableRunner.run(relay, "r", agent(asked, "Triage"), "Other.", agents=agents))


def test_such_a_run_starts_anew_where_its_receiver_is_not_at_hand(relay: Relay) -> None:
    older(relay, {"ticket_id": "T-1"})
    asked = Provider({"Triage": [[message("Done.")]]})
    assert run(relay, agent(asked, "Triage")).final_output == "Done."
