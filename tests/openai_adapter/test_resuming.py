"""Where a run may go on, with which agents, and what a replay does when the code has changed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, HandoffInputData, RunConfig, UserError, function_tool, handoff
from agents.tool_context import ToolContext
from pydantic import BaseModel

from agent_handoff_kit import HandoffVerificationError, Relay
from agent_handoff_kit.errors import NothingToResume, RunDiverged, RunInputMismatch, UnknownAgent
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.outputs import call, handover, message, thought
from tests.support.provider import Provider

Scripts = dict[str, list[list[Any]]]
CONFIG = RunConfig(tracing_disabled=True)
TWO: Scripts = {"Triage": [[handover("Resolver", "h1")]], "Resolver": [[message("Done.")]]}


async def run(relay: Relay, agent: Agent[Any], text: Any = "Hello", **given: Any) -> Any:
    options: dict[str, Any] = {"run_config": CONFIG, **given}
    return await DurableRunner.run(relay, "r", agent, text, **options)


def two(provider: Provider, **options: Any) -> Agent[Any]:
    resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"), **options)
    return Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[resolver])


def test_a_hard_failure_waits_for_the_sibling_that_still_runs_in_a_thread(relay: Relay) -> None:
    applied: list[str] = []
    failures = [ConnectionError("lost")]

    @function_tool(failure_error_function=None)
    def slow(order: str) -> str:
        """Refund, slowly."""
        time.sleep(0.4)
        applied.append(order)
        return "refunded"

    @function_tool(failure_error_function=None)
    async def failing() -> str:
        """Fail once."""
        await asyncio.sleep(0.05)
        if failures:
            raise failures.pop()
        return "well"

    async def scenario() -> None:
        scripts: Scripts = {"Payer": [[call("slow", "s1", order="77"), call("failing", "f1")], [message("Done.")]]}
        provider = Provider(scripts)
        agent = Agent[Any](name="Payer", model=provider.model("Payer"), tools=[slow, failing])
        result = await run(relay, agent)
        assert result.final_output == "Done."
        assert applied == ["77"]
        assert len(provider.asked) == 2

    asyncio.run(scenario())


def test_a_sibling_that_does_not_end_in_time_ends_the_call_with_the_first_error(path: str) -> None:
    leave = threading.Event()

    @function_tool(failure_error_function=None)
    def stuck() -> str:
        """Never end."""
        assert leave.wait(60)
        return "late"

    @function_tool(failure_error_function=None)
    async def failing() -> str:
        """Fail."""
        await asyncio.sleep(0.05)
        raise ConnectionError("lost")

    async def scenario() -> None:
        provider = Provider({"Payer": [[call("stuck", "s1"), call("failing", "f1")], [message("Done.")]]})
        agent = Agent[Any](name="Payer", model=provider.model("Payer"), tools=[stuck, failing])
        with Relay(path, lease_ttl=1.0) as relay:
            with pytest.raises(UserError, match="lost"):
                await run(relay, agent, max_resume_attempts=3)
            assert len(provider.asked) == 1
            leave.set()

    asyncio.run(scenario())


def test_a_filter_of_a_later_handoff_sees_after_a_resume_all_earlier_items_as_history(relay: Relay) -> None:
    """The one exception to equal inputs."""
    seen: list[tuple[int, int]] = []

    def looking(data: HandoffInputData) -> HandoffInputData:
        history = data.input_history if isinstance(data.input_history, tuple) else (data.input_history,)
        seen.append((len(history), len(data.pre_handoff_items)))
        return data

    async def scenario() -> None:
        scripts: Scripts = {**TWO, "Resolver": [[handover("Closer", "h2")]], "Closer": [[message("Done.")]]}
        provider = Provider(scripts, [1])
        closer = Agent[Any](name="Closer", model=provider.model("Closer"))
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))
        resolver.handoffs = [handoff(closer, input_filter=looking)]
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[resolver])
        await run(relay, triage)
        # Undisturbed it is the user's text, and the two items of the first handoff before this one.
        assert seen == [(3, 0)]

    asyncio.run(scenario())


def test_an_agent_made_on_the_fly_is_found_through_agents(relay: Relay) -> None:
    async def scenario() -> None:
        provider = Provider(TWO, [1])
        resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"))

        async def on_the_fly(context: Any, arguments: str) -> Agent[Any]:
            return resolver

        entry = handoff(resolver)
        entry.on_invoke_handoff = on_the_fly
        triage = Agent[Any](name="Triage", model=provider.model("Triage"), handoffs=[entry])
        with pytest.raises(ConnectionError):
            await run(relay, triage, max_resume_attempts=0)
        alone = Agent[Any](name="Triage", model=provider.model("Triage"))
        with pytest.raises(UnknownAgent, match="Resolver"):
            await run(relay, alone)
        assert (await run(relay, alone, agents={"resolver": resolver})).final_output == "Done."
        assert (await DurableRunner.result(relay, "r", alone, agents=lambda name: resolver)) == "Done."

    asyncio.run(scenario())


def test_two_agents_of_one_name_are_told_apart_by_their_place(relay: Relay) -> None:
    async def scenario() -> None:
        scripts: Scripts = {
            "first": [[call("transfer_to_second_clerk", "h1")]],
            "second": [[call("transfer_to_third_clerk", "h2")]],
            "third": [[message("Done.")]],
        }
        provider = Provider(scripts, [2])
        third = Agent[Any](name="Clerk", model=provider.model("third"))
        second = Agent[Any](name="Clerk", model=provider.model("second"))
        second.handoffs = [handoff(third, tool_name_override="transfer_to_third_clerk")]
        first = Agent[Any](name="Clerk", model=provider.model("first"))
        first.handoffs = [handoff(second, tool_name_override="transfer_to_second_clerk")]
        result = await run(relay, first)
        assert result.final_output == "Done."
        assert [one.agent for one in provider.asked] == ["first", "second", "third", "third"]
        assert [one.to_agent for one in await relay.ahistory("r")] == ["Clerk#2", "Clerk#3"]

    asyncio.run(scenario())


@pytest.mark.parametrize("on_diverged, answers", [("raise", 2), ("replay", 3), ("call", 3)])
def test_a_replay_that_would_ask_something_else_does_as_the_caller_says(
    relay: Relay, on_diverged: str, answers: int
) -> None:
    async def scenario() -> None:
        scripts: Scripts = {
            "Payer": [
                [thought("first"), call("look", "l1")],
                [thought("second"), call("look", "l2")],
                [message("Done.")],
            ]
        }
        provider = Provider(scripts, [2])

        @function_tool
        def look() -> str:
            """Look."""
            return "found"

        agent = Agent[Any](name="Payer", model=provider.model("Payer"), tools=[look])
        with pytest.raises(ConnectionError):
            await run(relay, agent, max_resume_attempts=0)
        # From the second model call on the input is another one.
        other = RunConfig(tracing_disabled=True, reasoning_item_id_policy="omit")
        going_on = run(relay, agent, run_config=other, on_diverged=on_diverged)
        if on_diverged == "raise":
            with pytest.raises(RunDiverged, match="model:root:2"):
                await going_on
            assert await relay.arun_status("r") == "open"
        else:
            assert (await going_on).final_output == "Done."
        assert provider.answers == answers
        looked = [one for one in provider.asked[-1].input if one.get("type") == "function_call_output"]
        assert len(looked) == (1 if on_diverged == "call" else 2)

    asyncio.run(scenario())


def test_an_unknown_word_for_a_divergence_is_refused_before_anything_is_written(relay: Relay) -> None:
    with pytest.raises(ValueError, match="on_diverged"):
        asyncio.run(run(relay, two(Provider(TWO)), on_diverged="guess"))
    assert relay.run_status("r") is None


@pytest.mark.parametrize("journal", [True, False])
def test_without_a_journal_a_run_goes_on_at_its_last_handoff_only(relay: Relay, journal: bool) -> None:
    async def scenario() -> None:
        scripts: Scripts = {
            "Triage": [[handover("Resolver", "h1")]],
            "Resolver": [[call("look", "r1")], *([[call("look", "r1")]] if not journal else []), [message("Done.")]],
        }
        provider = Provider(scripts, [2])
        looked: list[int] = []

        @function_tool
        def look() -> str:
            """Look."""
            looked.append(1)
            return "found"

        result = await run(relay, two(provider, tools=[look]), journal=journal)
        assert result.final_output == "Done."
        assert len(looked) == (1 if journal else 2)
        assert [one.agent for one in provider.asked].count("Triage") == 1

    asyncio.run(scenario())


def test_a_handoff_inside_an_agent_tool_is_verified_and_is_no_resume_point(relay: Relay) -> None:
    async def scenario(context: dict[str, Any]) -> Any:
        scripts: Scripts = {
            "Payer": [[call("ask", "a1", input="look")], [message("Done.")]],
            "Inner": [[handover("Deep", "h1")]],
            "Deep": [[message("Deep words.")]],
        }
        provider = Provider(scripts, [3])
        deep = Agent[Any](name="Deep", model=provider.model("Deep"))
        inner = Agent[Any](name="Inner", model=provider.model("Inner"), handoffs=[deep])
        payer = Agent[Any](name="Payer", model=provider.model("Payer"), tools=[inner.as_tool("ask", "Ask")])
        result = await run(relay, payer, context=context)
        # Lost at the outer agent's last answer: what is inside is replayed.
        assert [one.agent for one in provider.asked] == ["Payer", "Inner", "Deep", "Payer", "Payer"]
        return result

    assert asyncio.run(scenario({"n": 1})).final_output == "Done."
    assert relay.history("r") == []


class Answer(BaseModel):
    words: str


def test_handoffs_of_the_applications_own_within_a_run_are_no_resume_points(relay: Relay) -> None:
    async def scenario() -> None:
        final = message('{"words": "Done."}')
        scripts: Scripts = {"Triage": [[handover("Resolver", "h1")]], "Resolver": [[call("delegate", "d1")], [final]]}
        provider = Provider(scripts, [2])
        delegated: list[int] = []

        @function_tool
        async def delegate() -> str:
            """Hand a part of the work to plain code."""
            delegated.append(1)
            await relay.ahandoff("r", "Resolver", "printer", {"pages": 2}, ["pages"])
            return "printed"

        agent = two(provider, tools=[delegate], output_type=Answer)
        with pytest.raises(ConnectionError):
            await run(relay, agent, max_resume_attempts=0)
        assert [one.to_agent for one in await relay.ahistory("r")] == ["Resolver", "printer"]
        result = await run(relay, agent)
        assert result.final_output == Answer(words="Done.")
        assert delegated == [1]
        assert [one.agent for one in provider.asked] == ["Triage", "Resolver", "Resolver", "Resolver"]
        assert provider.asked[-1].input == provider.asked[-2].input
        assert await DurableRunner.result(relay, "r", agent) == Answer(words="Done.")

    asyncio.run(scenario())


def test_agent_tools_two_levels_deep_are_replayed_under_their_own_place(relay: Relay) -> None:
    noted: list[str] = []

    @function_tool
    def note(ctx: ToolContext[Any], text: str) -> str:
        """Note."""
        noted.append(text)
        ctx.context["noted"].append(text)
        return text

    async def scenario(lost: int | None) -> tuple[Any, list[Any]]:
        noted.clear()
        scripts: Scripts = {
            "Outer": [[call("middle", "o1", input="go"), call("note", "o2", text="outer")], [message("Done.")]],
            "Middle": [[call("inner", "m1", input="go"), call("note", "m2", text="middle")], [message("Middle.")]],
            "Inner": [[call("note", "i1", text="inner")], [message("Inner.")]],
        }
        provider = Provider(scripts, [] if lost is None else [lost])
        inner = Agent[Any](name="Inner", model=provider.model("Inner"), tools=[note])
        middle = Agent[Any](name="Middle", model=provider.model("Middle"), tools=[inner.as_tool("inner", "In"), note])
        outer = Agent[Any](name="Outer", model=provider.model("Outer"), tools=[middle.as_tool("middle", "Mid"), note])
        context: dict[str, Any] = {"noted": []}
        name = f"run {lost}"
        if lost is not None:
            with pytest.raises(ConnectionError):
                await DurableRunner.run(
                    relay,
                    name,
                    outer,
                    "Go",
                    context=context,
                    run_config=CONFIG,
                    max_resume_attempts=0,
                    serial_tools=True,
                )
            context = {"noted": []}
        result = await DurableRunner.run(
            relay, name, outer, "Go", context=context, run_config=CONFIG, serial_tools=True
        )
        usage = result.context_wrapper.usage
        assert sorted(noted) == ["inner", "middle", "outer"]
        return (result.final_output, context, usage.requests, usage.total_tokens), [one.agent for one in provider.asked]

    whole, asked = asyncio.run(scenario(None))
    # A lost answer inside is soft text for the agent around it, as in the SDK; the last one is the outer agent's.
    resumed, again = asyncio.run(scenario(5))
    assert resumed == whole
    assert again == [*asked, "Outer"]


def test_a_run_without_input_that_was_never_started_has_nothing_to_resume(relay: Relay) -> None:
    provider = Provider(TWO)
    with pytest.raises(NothingToResume):
        asyncio.run(DurableRunner.resume(relay, "r", two(provider)))
    assert provider.asked == []


def test_the_same_run_with_other_input_is_refused_before_a_model_is_asked(relay: Relay) -> None:
    async def scenario() -> None:
        provider = Provider(TWO, [1])
        with pytest.raises(ConnectionError):
            await run(relay, two(provider), "Hello", max_resume_attempts=0)
        with pytest.raises(RunInputMismatch):
            await run(relay, two(provider), "Goodbye")
        same = [{"role": "user", "content": "Hello"}]
        assert (await run(relay, two(provider), same)).final_output == "Done."

    asyncio.run(scenario())


def test_a_failed_verification_names_what_is_missing_and_nothing_more_runs(relay: Relay) -> None:
    async def scenario() -> None:
        provider = Provider(TWO)
        with pytest.raises(HandoffVerificationError) as caught:
            await run(relay, two(provider), context={}, required_keys={"Resolver": ["ticket_id"]})
        assert caught.value.missing == ["ticket_id"]
        assert len(provider.asked) == 1

    asyncio.run(scenario())


DYING = """
import asyncio, os, signal, sys
from agents import Agent, RunConfig
from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.openai_adapter.test_resuming import TWO
from tests.support.provider import Provider

class Dying(Provider):
    def answer(self, asked):
        if asked.agent == "Resolver":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().answer(asked)

provider = Dying(TWO)
resolver = Agent(name="Resolver", model=provider.model("Resolver"))
triage = Agent(name="Triage", model=provider.model("Triage"), handoffs=[resolver])
config = RunConfig(tracing_disabled=True)
asyncio.run(DurableRunner.run(Relay(sys.argv[1]), sys.argv[2], triage, "Hello", run_config=config))
"""


def test_the_runs_of_dead_processes_are_taken_over(relay: Relay, path: str) -> None:
    root = Path(__file__).parents[2]
    processes = [subprocess.Popen([sys.executable, "-c", DYING, path, f"r{n}"], cwd=root) for n in range(2)]
    assert [process.wait() for process in processes] == [-signal.SIGKILL] * 2
    scripts: Scripts = {"Triage": [], "Resolver": [[message("Done.")], [message("Done.")]]}
    provider = Provider(scripts)
    stop = threading.Event()
    stop.set()

    def build(run_id: str) -> tuple[Agent[Any], dict[str, Any]]:
        return two(provider), {"run_config": CONFIG}

    assert asyncio.run(DurableRunner.recover_orphans(relay, build, stop=stop)) == []
    found = dict(asyncio.run(DurableRunner.recover_orphans(relay, build)))
    assert {run_id: result.final_output for run_id, result in found.items()} == {"r0": "Done.", "r1": "Done."}
    assert [one.agent for one in provider.asked] == ["Resolver", "Resolver"]
