"""The caller's hooks, filters, guardrails and traces stay what they are without the adapter."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    RunConfig,
    RunHooks,
    Runner,
    UserError,
    function_tool,
    input_guardrail,
)
from agents.tracing import Span, Trace, TracingProcessor, set_trace_processors

from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import DurableRunner
from agent_handoff_kit.runs import current_run
from tests.support.outputs import call, handover, message
from tests.support.provider import Provider

Scripts = dict[str, list[list[Any]]]
CONFIG = RunConfig(tracing_disabled=True)


def scripts() -> Scripts:
    return {
        "Triage": [[call("look", "t1")], [handover("Resolver", "h1")]],
        "Resolver": [[call("look", "r1")], [message("Done.")]],
    }


@function_tool
def look() -> str:
    """Look."""
    return "found"


def graph(provider: Provider, **options: Any) -> Agent[Any]:
    resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"), tools=[look])
    model = provider.model("Triage")
    return Agent[Any](name="Triage", model=model, tools=[look], handoffs=[resolver], **options)


class Told(RunHooks[Any]):
    """Notes each hook that is called, and whether the run was only repeating then."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.replayed: list[bool] = []

    def note(self, name: str) -> None:
        self.calls.append(name)
        run = current_run()
        self.replayed.append(run is not None and run.replaying)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.note(f"start {agent.name}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.note(f"end {agent.name}")

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.note(f"handoff {from_agent.name} {to_agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.note(f"tool {tool.name}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        self.note(f"tool ended {result}")

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.note(f"ask {agent.name}")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.note(f"answered {agent.name}")


def test_the_callers_hooks_are_called_as_without_the_adapter(relay: Relay) -> None:
    async def scenario() -> None:
        alone, durable = Told(), Told()
        await Runner.run(graph(Provider(scripts())), "Hello", hooks=alone, run_config=CONFIG)
        agent = graph(Provider(scripts()))
        await DurableRunner.run(relay, "r", agent, "Hello", hooks=durable, run_config=CONFIG)
        assert durable.calls == alone.calls
        assert not any(durable.replayed)

    asyncio.run(scenario())


def test_hooks_can_tell_that_what_happens_is_only_repeated(relay: Relay) -> None:
    async def scenario() -> None:
        provider, told = Provider(scripts(), [3]), Told()
        await DurableRunner.run(relay, "r", graph(provider), "Hello", hooks=told, run_config=CONFIG)
        again = told.calls.index("start Resolver", told.calls.index("start Resolver") + 1)
        repeated = [name for name, replayed in zip(told.calls, told.replayed, strict=True) if replayed]
        assert not any(told.replayed[:again])
        assert repeated[:2] == ["start Resolver", "ask Resolver"]
        assert "end Resolver" not in repeated

    asyncio.run(scenario())


def test_an_error_of_a_hook_comes_out_and_is_not_met_by_another_attempt(relay: Relay) -> None:
    class Failing(Told):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            raise ConnectionError("the audit log is down")

    async def scenario() -> None:
        provider = Provider(scripts())
        with pytest.raises(UserError, match="audit log"):
            await DurableRunner.run(
                relay, "r", graph(provider), "Hello", hooks=Failing(), run_config=CONFIG, max_resume_attempts=3
            )
        assert len(provider.asked) == 1
        assert await relay.arun_status("r") == "open"

    asyncio.run(scenario())


@pytest.mark.parametrize("in_parallel", [True, False])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_tripped_input_guardrail_ends_the_run_and_no_handoff_is_kept(
    relay: Relay, in_parallel: bool, streamed: bool
) -> None:
    @input_guardrail(run_in_parallel=in_parallel)
    async def never(context: Any, agent: Any, items: Any) -> GuardrailFunctionOutput:
        await asyncio.sleep(0.05)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    async def scenario() -> None:
        provider = Provider({"Triage": [[handover("Resolver", "h1")]], "Resolver": [[message("Done.")]]})
        agent = graph(provider, input_guardrails=[never])
        with pytest.raises(InputGuardrailTripwireTriggered):
            if streamed:
                result: Any = DurableRunner.run_streamed(relay, "r", agent, "Hello", run_config=CONFIG)
                _ = [event async for event in result.stream_events()]
            else:
                await DurableRunner.run(relay, "r", agent, "Hello", run_config=CONFIG)
        assert await relay.ahistory("r") == []
        assert await relay.arun_status("r") == "open"
        assert "Resolver" not in [one.agent for one in provider.asked]

    asyncio.run(scenario())


def test_input_guardrails_that_passed_are_not_asked_again_after_the_handoff(relay: Relay) -> None:
    asked: list[int] = []

    @input_guardrail
    async def fine(context: Any, agent: Any, items: Any) -> GuardrailFunctionOutput:
        asked.append(1)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    async def scenario() -> None:
        provider = Provider(scripts(), [3])
        agent = graph(provider, input_guardrails=[fine])
        result = await DurableRunner.run(relay, "r", agent, "Hello", run_config=CONFIG)
        assert (result.final_output, asked) == ("Done.", [1])

    asyncio.run(scenario())


class Traced(TracingProcessor):
    """Keeps what is traced."""

    def __init__(self) -> None:
        self.groups: list[Any] = []
        self.spans: list[tuple[str | None, dict[str, Any]]] = []

    def on_trace_start(self, trace: Trace) -> None:
        exported = trace.export() or {}
        self.groups.append(exported.get("group_id"))

    def on_trace_end(self, trace: Trace) -> None:
        """Nothing is to be done."""

    def on_span_start(self, span: Span[Any]) -> None:
        """Nothing is to be done."""

    def on_span_end(self, span: Span[Any]) -> None:
        told = span.span_data.export()
        if told.get("type") == "custom":
            self.spans.append((told.get("name"), told.get("data", {})))

    def shutdown(self) -> None:
        """Nothing is to be done."""

    def force_flush(self) -> None:
        """Nothing is to be done."""


@pytest.fixture
def traced() -> Iterator[Traced]:
    processor = Traced()
    set_trace_processors([processor])
    yield processor
    set_trace_processors([])


def test_a_resume_is_seen_in_the_traces_of_its_run(relay: Relay, traced: Traced) -> None:
    async def scenario() -> None:
        await DurableRunner.run(relay, "run-7", graph(Provider(scripts(), [3])), "Hello")

    asyncio.run(scenario())
    assert set(traced.groups) == {"run-7"}
    resumed = [data for name, data in traced.spans if name == "recovery.resume"]
    assert len(resumed) == 1
    assert resumed[0]["run_id"] == "run-7"
    assert (resumed[0]["agent"], resumed[0]["replayed_model_calls"], resumed[0]["replayed_tools"]) == ("Resolver", 1, 1)
