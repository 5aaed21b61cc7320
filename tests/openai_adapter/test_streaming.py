"""One stream spans the attempts at a run: each event once, every error, and nothing held after its end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, RunConfig, function_tool
from agents.tool_context import ToolContext
from openai.types.responses import ResponseTextDeltaEvent

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreError
from agent_handoff_kit.openai_adapter import DurableRunner, RunResumedEvent
from tests.support.outputs import call, handover, message
from tests.support.provider import ProvidedModel, Provider

SCRIPTS: dict[str, list[list[Any]]] = {
    "Triage": [[call("lookup", "t1", q="77")], [handover("Resolver", "h1")]],
    "Resolver": [[call("lookup", "r1", q="78")], [message("All is well.")]],
}
ANSWERS = 4


class Talking(Provider):
    """A provider whose words come in pieces; some answers are cut off after two of them."""

    def __init__(self, *cut: int) -> None:
        super().__init__(SCRIPTS)
        self.cut = set(cut)

    def model(self, agent: str) -> Model:
        return InPieces(self, agent)

    def is_cut(self) -> bool:
        """Whether the answer that is due is cut off, which it is once."""
        if self.answers not in self.cut:
            return False
        self.cut.remove(self.answers)
        return True


class InPieces(ProvidedModel):
    """Gives four pieces of words, then the answer."""

    def __init__(self, provider: Talking, agent: str) -> None:
        super().__init__(provider, agent)
        self._talking = provider

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for number in range(4):
            if number == 2 and self._talking.is_cut():
                raise ConnectionError("cut off")
            yield delta(number)
        async for event in super().stream_response(*args, **kwargs):
            yield event


def delta(number: int) -> ResponseTextDeltaEvent:
    return ResponseTextDeltaEvent.model_construct(
        type="response.output_text.delta", delta=f"piece {number}", item_id="m", output_index=0, content_index=0
    )


def triage(provider: Provider, effects: list[str]) -> Agent[Any]:
    @function_tool
    def lookup(ctx: ToolContext[Any], q: str) -> str:
        """Look something up."""
        effects.append(q)
        return f"found {q}"

    resolver = Agent[Any](name="Resolver", model=provider.model("Resolver"), tools=[lookup])
    return Agent[Any](name="Triage", model=provider.model("Triage"), tools=[lookup], handoffs=[resolver])


def streamed(relay: Relay, agent: Agent[Any], **given: Any) -> Any:
    config = RunConfig(tracing_disabled=True)
    return DurableRunner.run_streamed(relay, "r", agent, "Hello", run_config=config, **given)


def told(event: Any) -> str:
    if event.type == "run_item_stream_event":
        return str(event.name)
    if event.type == "agent_updated_stream_event":
        return f"agent {event.new_agent.name}"
    if isinstance(event, RunResumedEvent):
        return f"resumed {event.agent.name} {event.attempt} void {event.void_events}"
    return str(event.data.type).rsplit(".", 1)[1]


def semantic(events: list[str]) -> list[str]:
    return [one for one in events if one not in ("delta", "done") and not one.startswith("resumed")]


async def undisturbed(folder: Path) -> list[str]:
    with Relay(folder / "undisturbed.db") as relay:
        result = streamed(relay, triage(Talking(), []))
        return [told(event) async for event in result.stream_events()]


@pytest.mark.parametrize("cut", range(ANSWERS))
def test_a_stream_that_is_cut_off_goes_on_without_repeating_what_was_told(tmp_path: Path, cut: int) -> None:
    async def scenario() -> None:
        whole = await undisturbed(tmp_path)
        with Relay(tmp_path / "run.db") as relay:
            provider, effects = Talking(cut), list[str]()
            result = streamed(relay, triage(provider, effects))
            events = [told(event) async for event in result.stream_events()]
            assert semantic(events) == semantic(whole)
            agent = "Triage" if cut < 2 else "Resolver"
            (place,) = [number for number, one in enumerate(events) if one.startswith("resumed")]
            # The SDK may drop the last piece before an error.
            pieces = sum(1 for _ in itertools.takewhile(lambda one: one == "delta", reversed(events[:place])))
            assert pieces in (1, 2)
            assert events[place] == f"resumed {agent} 1 void {pieces}"
            # The answer that was cut off is given whole; those before it are not told again.
            assert events.count("delta") == whole.count("delta") + pieces
            assert result.final_output == "All is well."
            assert effects == ["77", "78"]
            assert provider.answers == ANSWERS

    asyncio.run(scenario())


def test_another_process_tells_what_was_recorded_without_pieces(tmp_path: Path) -> None:
    async def scenario() -> None:
        whole = await undisturbed(tmp_path)
        with Relay(tmp_path / "run.db") as relay:
            provider = Talking(3)
            result = streamed(relay, triage(provider, []), max_resume_attempts=0)
            with pytest.raises(ConnectionError):
                _ = [event async for event in result.stream_events()]
            result = streamed(relay, triage(provider, []))
            events = [told(event) async for event in result.stream_events()]
            since_handoff = semantic(whole)[semantic(whole).index("agent Resolver") :]
            assert semantic(events) == since_handoff
            assert events.count("delta") == 4
            assert provider.answers == ANSWERS

    asyncio.run(scenario())


async def is_open_and_free(relay: Relay) -> None:
    assert await relay.arun_status("r") == "open"
    async with relay.arun("r", wait=0):
        pass


@pytest.mark.parametrize("after", range(1, 14))
def test_a_reader_that_stops_leaves_the_run_open_and_free(tmp_path: Path, after: int) -> None:
    async def scenario() -> None:
        with Relay(tmp_path / "run.db") as relay:
            provider, effects = Talking(), list[str]()
            result = streamed(relay, triage(provider, effects))
            events = result.stream_events()
            for _ in range(after):
                await anext(events)
            await events.aclose()
            await is_open_and_free(relay)
            result = streamed(relay, triage(provider, effects))
            _ = [event async for event in result.stream_events()]
            assert result.final_output == "All is well."
            # A tool that had taken effect was waited for and recorded.
            assert effects == ["77", "78"]

    asyncio.run(scenario())


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_a_run_that_is_cancelled_is_left_open_and_free(tmp_path: Path, mode: Any) -> None:
    async def scenario() -> None:
        with Relay(tmp_path / "run.db") as relay:
            provider, effects = Talking(), list[str]()
            result = streamed(relay, triage(provider, effects))
            async for event in result.stream_events():
                if told(event) == "tool_called":
                    result.cancel(mode)
            await is_open_and_free(relay)
            assert result.final_output is None
            assert len(provider.asked) == 1
            if mode == "after_turn":
                assert effects == ["77"]
            result = streamed(relay, triage(provider, effects))
            _ = [event async for event in result.stream_events()]
            assert (result.final_output, effects, provider.answers) == ("All is well.", ["77", "78"], ANSWERS)

    asyncio.run(scenario())


def test_an_error_of_the_store_in_a_handoff_reaches_the_reader(tmp_path: Path) -> None:
    async def scenario() -> None:
        relay = Relay(tmp_path / "run.db")
        provider, effects = Talking(), list[str]()
        result = streamed(relay, triage(provider, effects))
        with pytest.raises(StoreError):
            async for event in result.stream_events():
                if told(event) == "handoff_requested":
                    relay.close()
        assert [one.agent for one in provider.asked] == ["Triage", "Triage"]
        with Relay(tmp_path / "run.db") as other:
            result = streamed(other, triage(provider, effects))
            _ = [event async for event in result.stream_events()]
            assert (result.final_output, effects) == ("All is well.", ["77", "78"])

    asyncio.run(scenario())


def test_nothing_happens_before_the_events_are_read(tmp_path: Path) -> None:
    with Relay(tmp_path / "run.db") as relay:
        provider = Talking()
        result = streamed(relay, triage(provider, []))
        assert (result.final_output, result.is_complete, result.current_agent.name) == (None, False, "Triage")
        assert relay.run_status("r") is None
        assert provider.asked == []
