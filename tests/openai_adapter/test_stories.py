"""Stories of handoffs that went wrong elsewhere, each with its right outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    HandoffInputData,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    SQLiteSession,
    function_tool,
    handoff,
    output_guardrail,
)
from agents.tool_context import ToolContext
from pydantic import BaseModel

from agent_handoff_kit import HandoffVerificationError, Relay
from agent_handoff_kit.errors import RunMismatch
from agent_handoff_kit.openai_adapter import DurableRunner, relayed_handoff
from tests.support.outputs import call, handover, message
from tests.support.provider import Provider

Scripts = dict[str, list[list[Any]]]
CONFIG = RunConfig(tracing_disabled=True)


def in_a_loop(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def run(
    relay: Relay, agent: Agent[Any], text: str = "Where is order 77?", run_id: str = "r", **given: Any
) -> Any:
    return await DurableRunner.run(relay, run_id, agent, text, run_config=CONFIG, **given)


def test_what_the_first_agent_found_out_is_there_after_the_crash_of_the_second(relay: Relay) -> None:
    @function_tool
    def lookup(q: str) -> str:
        """Look up."""
        return f"order {q} found"

    async def scenario() -> None:
        scripts: Scripts = {
            "Triage": [[call("lookup", "t1", q="77")], [handover("Resolver", "h1")]],
            "Resolver": [[message("Done.")]],
        }
        provider = Provider(scripts, [2])
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))
        to_resolver = relayed_handoff(relay, "r", "Triage", "Resolver", resolver, ["ticket_id"])
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), tools=[lookup], handoffs=[to_resolver])
        result = await run(relay, triage, context={"ticket_id": "T-1"})
        assert result.final_output == "Done."
        first, second = (one.input for one in provider.asked[-2:])
        assert first == second
        assert json.dumps(second).count("order 77 found") == 1
        (checkpoint,) = await relay.ahistory("r")
        assert json.dumps(checkpoint.context["messages"]).count("order 77 found") == 1

    in_a_loop(scenario())


def test_what_a_filter_cut_out_does_not_come_back_on_resume(relay: Relay) -> None:
    def redacted(data: HandoffInputData) -> HandoffInputData:
        return data.clone(input_history="[redacted]", pre_handoff_items=(), new_items=())

    async def scenario() -> None:
        provider = Provider({"Triage": [[handover("Resolver", "h1")]], "Resolver": [[message("Done.")]]}, [1])
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))
        to_resolver = relayed_handoff(relay, "r", "Triage", "Resolver", resolver, [], input_filter=redacted)
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[to_resolver])
        await run(relay, triage, "card 4000-1111 please")
        assert [one.agent for one in provider.asked] == ["Triage", "Resolver", "Resolver"]
        assert not any("4000-1111" in json.dumps(one.input) for one in provider.asked[1:])

    in_a_loop(scenario())


def test_the_same_history_arrives_once(relay: Relay) -> None:
    async def scenario() -> None:
        session = SQLiteSession("s1")
        provider = Provider({"Triage": [[handover("Resolver", "h1")]], "Resolver": [[message("Done.")]]}, [1])
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[resolver])
        await run(relay, triage, session=session)
        assert json.dumps(provider.asked[-1].input).count("order 77") == 1
        kept = await session.get_items()
        assert [one.get("role", one.get("type")) for one in kept] == [
            "user",
            "function_call",
            "function_call_output",
            "assistant",
        ]
        session.close()

    in_a_loop(scenario())


@dataclass
class Ticket:
    ticket_id: str


class Order(BaseModel):
    ticket_id: str


@pytest.mark.parametrize("context", [Ticket("T-1"), Order(ticket_id="T-1")], ids=["dataclass", "model"])
def test_a_typed_context_is_verified_and_is_its_type_after_a_resume(relay: Relay, context: Any) -> None:
    seen: list[Any] = []

    @function_tool(failure_error_function=None)
    def look(ctx: ToolContext[Any]) -> str:
        """Look."""
        seen.append(ctx.context)
        return str(ctx.context.ticket_id)

    async def scenario() -> None:
        scripts: Scripts = {
            "Triage": [[handover("Resolver", "h1")]],
            "Resolver": [[call("look", "r1")], [message("Done.")]],
        }
        provider = Provider(scripts, [1])
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"), tools=[look])
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[resolver])
        await run(relay, triage, context=context, required_keys={"Resolver": ["ticket_id"]})
        assert seen == [context] and seen[0] is context
        assert context.ticket_id == "T-1"

    in_a_loop(scenario())


def test_a_run_that_waits_for_approval_is_not_finished(relay: Relay) -> None:
    paid: list[int] = []

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    async def scenario() -> None:
        provider = Provider({"Payer": [[call("pay", "p1", amount=5)], [message("Done.")]]})
        agent = Agent[Any](name="Payer", model=provider.model("Payer"), tools=[pay])
        waiting = await run(relay, agent)
        assert (len(waiting.interruptions), waiting.final_output) == (1, None)
        assert await relay.arun_status("r") == "waiting"
        state = waiting.to_state()
        state.approve(waiting.interruptions[0])
        result = await DurableRunner.run(relay, "r", agent, state, run_config=CONFIG)
        assert (result.final_output, paid) == ("Done.", [5])
        assert await relay.arun_status("r") == "completed"

    in_a_loop(scenario())


@pytest.mark.parametrize("bound_to", ["ticket-1", None])
def test_one_graph_for_two_customers_keeps_them_apart(relay: Relay, bound_to: str | None) -> None:
    async def scenario() -> None:
        provider = Provider({"Triage": [[handover("Resolver", "h1")]], "Resolver": [[message("Done.")]]})
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))
        to_resolver = relayed_handoff(relay, bound_to, "Triage", "Resolver", resolver, ["who"])
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[to_resolver])
        if bound_to is None:
            await run(relay, triage, run_id="ticket-2", context={"who": "Bo"})
            (checkpoint,) = await relay.ahistory("ticket-2")
            assert checkpoint.context["state"] == {"who": "Bo"}
        else:
            with pytest.raises(RunMismatch):
                await run(relay, triage, run_id="ticket-2", context={"who": "Bo"})
            assert await relay.ahistory("ticket-2") == []
            assert [one.agent for one in provider.asked] == ["Triage"]
        assert await relay.ahistory("ticket-1") == []

    in_a_loop(scenario())


def test_a_tripped_guardrail_is_no_crash(relay: Relay) -> None:
    @output_guardrail
    def never(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    async def scenario() -> None:
        scripts: Scripts = {
            "Triage": [[handover("Resolver", "h1")]],
            "Resolver": [[message("Bad.")], [message("Good.")]],
        }
        provider = Provider(scripts)
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"), output_guardrails=[never])
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[resolver])
        with pytest.raises(OutputGuardrailTripwireTriggered):
            await run(relay, triage, max_resume_attempts=3)
        assert [one.agent for one in provider.asked] == ["Triage", "Resolver"]
        assert await relay.arun_status("r") == "open"

    in_a_loop(scenario())


def test_a_failed_verification_is_no_crash(relay: Relay) -> None:
    charged: list[int] = []

    @function_tool
    def charge(amount: int) -> str:
        """Charge."""
        charged.append(amount)
        return "charged"

    async def scenario() -> None:
        scripts: Scripts = {
            "Triage": [[handover("Resolver", "h1")]],
            "Resolver": [[call("charge", "r1", amount=5)], [handover("Closer", "h2")]],
            "Closer": [[message("Done.")]],
        }
        provider = Provider(scripts)
        closer = Agent[Any](name="Closer", model=provider.model("Closer"))
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"), tools=[charge], handoffs=[closer])
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[resolver])
        keys = {"Closer": ["approval_id"]}
        context: dict[str, Any] = {"ticket_id": "T-1"}
        with pytest.raises(HandoffVerificationError, match="approval_id"):
            await run(relay, triage, context=context, required_keys=keys, max_resume_attempts=3)
        assert charged == [5]
        assert await relay.arun_status("r") == "open"
        assert [(one.to_agent, one.status.value) for one in await relay.ahistory("r")] == [
            ("Resolver", "VERIFIED"),
            ("Closer", "FAILED"),
        ]
        result = await DurableRunner.resume(
            relay,
            "r",
            triage,
            context=context,
            required_keys=keys,
            update_context=lambda held: held.update(approval_id="A-1"),
            run_config=CONFIG,
        )
        assert (result.final_output, charged) == ("Done.", [5])
        assert context == {"ticket_id": "T-1", "approval_id": "A-1"}

    in_a_loop(scenario())


@pytest.mark.parametrize("through", ["relayed", "plain"])
def test_a_callback_that_fails_is_shown_as_itself_and_its_receiver_does_not_run(relay: Relay, through: str) -> None:
    def audit(ctx: Any) -> None:
        raise ValueError("audit log down")

    async def scenario() -> None:
        provider = Provider({"Triage": [[handover("Resolver", "h1")]], "Resolver": [[message("Done.")]]})
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))
        if through == "relayed":
            entry: Any = relayed_handoff(relay, "r", "Triage", "Resolver", resolver, [], on_handoff=audit)
        else:
            entry = handoff(resolver, on_handoff=audit)
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[entry])
        with pytest.raises(ValueError, match="audit log down"):
            await run(relay, triage, max_resume_attempts=3)
        assert [one.agent for one in provider.asked] == ["Triage"]
        assert await relay.arun_status("r") == "open"

    in_a_loop(scenario())


def test_a_bug_in_extract_context_is_called_once_and_shown_as_itself(relay: Relay) -> None:
    called: list[int] = []

    def extract(ctx: Any) -> dict[str, Any]:
        called.append(1)
        raise TypeError("a bug of its own")

    async def scenario() -> None:
        provider = Provider({"Triage": [[handover("Resolver", "h1")]], "Resolver": [[message("Done.")]]})
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))
        entry = relayed_handoff(relay, "r", "Triage", "Resolver", resolver, [], extract_context=extract)
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[entry])
        with pytest.raises(TypeError, match="a bug of its own"):
            await run(relay, triage)
        assert called == [1]

    in_a_loop(scenario())
