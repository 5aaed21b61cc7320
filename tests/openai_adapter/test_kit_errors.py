"""An error of the kit never becomes text for a model: it comes out as itself, and nothing more is asked or done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, FunctionTool, RunConfig, function_tool
from agents.mcp import MCPServer
from mcp.types import CallToolResult, GetPromptResult, ListPromptsResult, TextContent
from mcp.types import Tool as MCPTool

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import (
    CallInDoubt,
    CallInProgress,
    HandoffKitError,
    HandoffVerificationError,
    KeyConflict,
    LostOwnership,
    RunDiverged,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
)
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.outputs import call, message
from tests.support.provider import Provider

ERRORS: dict[str, HandoffKitError] = {
    "in doubt": CallInDoubt("r", "pay", "k", "killed"),
    "in progress": CallInProgress("r", "pay", "k", "it runs"),
    "conflict": KeyConflict("r", "k"),
    "lost ownership": LostOwnership("r", "other", 2),
    "verification": HandoffVerificationError("r", "a", "b", ["n"], []),
    "diverged": RunDiverged("r", "model:root:1", "Payer"),
    "store busy": StoreBusy("run.db", "write", "locked"),
    "store full": StoreFull("run.db", "write", "full"),
    "store unavailable": StoreUnavailable("run.db", "write", "gone"),
    "store damaged": StoreDamaged("run.db", "read", "torn"),
}
Body = Callable[[], str]


class Local(MCPServer):
    """A server of one tool, without a process of its own."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self._body = body

    @property
    def name(self) -> str:
        return "local"

    async def connect(self) -> None:
        """There is nothing to connect to."""

    async def cleanup(self) -> None:
        """There is nothing to clean up."""

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[MCPTool]:
        return [MCPTool.model_validate({"name": "pay", "inputSchema": {"type": "object", "properties": {}}})]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=self._body())])

    async def list_prompts(self) -> ListPromptsResult:
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: Any = None) -> GetPromptResult:
        raise NotImplementedError


def tool_of(body: Body, **options: Any) -> FunctionTool:
    def pay() -> str:
        """Pay."""
        return body()

    made: FunctionTool = function_tool(pay, **options)
    return made


def plain(provider: Provider, body: Body) -> Agent[Any]:
    return Agent(name="Payer", model=provider.model("Payer"), tools=[tool_of(body)])


def with_words(provider: Provider, body: Body) -> Agent[Any]:
    tool = tool_of(body, failure_error_function=lambda context, error: "never mind")
    return Agent(name="Payer", model=provider.model("Payer"), tools=[tool])


def without_words(provider: Provider, body: Body) -> Agent[Any]:
    tool = tool_of(body, failure_error_function=None)
    return Agent(name="Payer", model=provider.model("Payer"), tools=[tool])


def stopping(provider: Provider, body: Body) -> Agent[Any]:
    model = provider.model("Payer")
    return Agent(name="Payer", model=model, tools=[tool_of(body)], tool_use_behavior="stop_on_first_tool")


def nested(provider: Provider, body: Body) -> Agent[Any]:
    inner = Agent[Any](name="Inner", model=provider.model("Inner"), tools=[tool_of(body)])
    return Agent(name="Payer", model=provider.model("Payer"), tools=[inner.as_tool("pay", "Pay")])


def served(provider: Provider, body: Body) -> Agent[Any]:
    return Agent(name="Payer", model=provider.model("Payer"), mcp_servers=[Local(body)])


AGENTS = (plain, with_words, without_words, stopping, nested, served)


def scripts(build: Any) -> dict[str, list[list[Any]]]:
    arguments = {"input": "pay"} if build is nested else {}
    inner: list[list[Any]] = [[call("pay", "i1")], [message("Paid.")]] if build is nested else []
    return {"Payer": [[call("pay", "p1", **arguments)], [message("Done.")]], "Inner": inner}


async def run(relay: Relay, agent: Agent[Any], streamed: bool) -> Any:
    config = RunConfig(tracing_disabled=True)
    if not streamed:
        return await DurableRunner.run(relay, "r", agent, "Pay", run_config=config, max_resume_attempts=3)
    result: Any = DurableRunner.run_streamed(relay, "r", agent, "Pay", run_config=config, max_resume_attempts=3)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("build", AGENTS, ids=[one.__name__ for one in AGENTS])
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_of_the_kit_in_a_tool_ends_the_call_as_itself(
    tmp_path: Path, name: str, build: Any, streamed: bool
) -> None:
    failures = [ERRORS[name]]
    effects: list[str] = []

    def body() -> str:
        effects.append("pay")
        if failures:
            raise failures.pop()
        return "paid"

    async def scenario() -> None:
        with Relay(tmp_path / "run.db") as relay:
            provider = Provider(scripts(build))
            agent = build(provider, body)
            with pytest.raises(HandoffKitError) as caught:
                await run(relay, agent, streamed)
            assert caught.value is ERRORS[name]
            asked = 2 if build is nested else 1
            assert (len(provider.asked), effects) == (asked, ["pay"])
            assert await relay.arun_status("r") == ("in_doubt" if name == "in doubt" else "open")
            result = await run(relay, agent, streamed)
            assert result.final_output == ("paid" if build is stopping else "Done.")
            assert effects == ["pay", "pay"]

    asyncio.run(scenario())


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("build", [plain, with_words, nested, served], ids=lambda one: str(one.__name__))
def test_a_tools_own_failure_stays_soft_and_is_replayed_as_it_was(tmp_path: Path, build: Any, streamed: bool) -> None:
    effects: list[str] = []

    def body() -> str:
        effects.append("pay")
        raise ValueError("declined")

    async def scenario(lost: list[int], name: str) -> list[Any]:
        effects.clear()
        with Relay(tmp_path / name) as relay:
            provider = Provider(scripts(build), lost)
            result = await run(relay, build(provider, body), streamed)
            assert result.final_output == "Done."
            assert effects == ["pay"]
            return [one.input for one in provider.asked]

    undisturbed = asyncio.run(scenario([], "undisturbed"))
    last = len(undisturbed) - 1
    resumed = asyncio.run(scenario([last], "resumed"))
    assert resumed == [*undisturbed, undisturbed[last]]
