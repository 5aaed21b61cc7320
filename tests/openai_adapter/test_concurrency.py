"""Many runs on one graph of agents do not mix, and one run has one worker."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, SQLiteSession, Usage, function_tool
from agents.tool_context import ToolContext

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import CallInProgress, RunAlreadyCompleted, RunInProgress
from agent_handoff_kit.openai_adapter import DurableRunner, make_idempotent_function_tool
from tests.support.outputs import call, handover, message
from tests.support.provider import Provider

CONFIG = RunConfig(tracing_disabled=True)


class Echoing(Model):
    """Answers by what it is shown, so that one object serves all runs; some calls lose their connection once."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.lost: set[str] = set()

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        await asyncio.sleep(0.001)
        text = json.dumps(input)
        number = text.split("ticket ", 1)[1].split('"', 1)[0].split(" ", 1)[0]
        if f"{number} {len(input)}" not in self.lost and int(number) % 3 == len(input) % 3:
            self.lost.add(f"{number} {len(input)}")
            raise ConnectionError("lost")
        return ModelResponse(output=[self._answer(number, text)], usage=Usage(requests=1), response_id=None)

    def _answer(self, number: str, text: str) -> Any:
        if f'"call_id": "look-{self.agent}-{number}"' not in text:
            return call("look", f"look-{self.agent}-{number}", ticket=number)
        return handover("Resolver", f"h-{number}") if self.agent == "Triage" else message(f"ticket {number} done")

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def test_fifty_runs_at_once_on_one_graph_do_not_mix(tmp_path: Path) -> None:
    @function_tool
    async def look(ctx: ToolContext[Any], ticket: str) -> str:
        """Look a ticket up."""
        await asyncio.sleep(0.001)
        ctx.context["looked"].append(ticket)
        return f"found {ticket}"

    resolver = Agent[Any](name="Resolver", model=Echoing("Resolver"), tools=[look])
    triage = Agent[Any](name="Triage", model=Echoing("Triage"), tools=[look], handoffs=[resolver])

    async def one(relay: Relay, number: int) -> None:
        context: dict[str, Any] = {"looked": []}
        session = SQLiteSession(f"s{number}", tmp_path / "sessions.db")
        sessions.append(session)
        result = await DurableRunner.run(
            relay,
            f"run {number}",
            triage,
            f"ticket {number}",
            context=context,
            session=session,
            run_config=CONFIG,
            max_resume_attempts=9,
        )
        assert result.final_output == f"ticket {number} done"
        assert context == {"looked": [str(number)] * 2}
        said = json.dumps(await session.get_items())
        assert f"ticket {number}" in said
        assert said.count("found") == 2 == said.count(f"found {number}")
        (checkpoint,) = await relay.ahistory(f"run {number}")
        assert checkpoint.context["state"] == {"looked": [str(number)]}

    async def scenario() -> None:
        with Relay(tmp_path / "run.db") as relay:
            await asyncio.gather(*[one(relay, number) for number in range(50)])

    sessions: list[SQLiteSession] = []
    try:
        asyncio.run(scenario())
    finally:
        for session in sessions:
            session.close()


WORKER = """
import asyncio, sys, time
from pathlib import Path
from agents import Agent, RunConfig, function_tool
from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.outputs import call, message
from tests.support.provider import Provider

@function_tool
def pay(order: str) -> str:
    "Pay."
    with open(sys.argv[2], "a") as ledger:
        ledger.write(order + "\\n")
    time.sleep(1)
    return "paid"

async def main():
    provider = Provider({"Payer": [[call("pay", "p1", order="77")], [message("Done.")]]})
    agent = Agent(name="Payer", model=provider.model("Payer"), tools=[pay])
    with Relay(sys.argv[1]) as relay:
        result = await DurableRunner.run(relay, "r", agent, "Pay", run_config=RunConfig(tracing_disabled=True))
        print(result.final_output)

try:
    asyncio.run(main())
except Exception as error:
    print(type(error).__name__)
"""


def test_of_two_processes_that_start_one_run_one_works(path: str, ledger: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", WORKER, path, str(ledger)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(2)]
    answers = {worker.communicate()[0].strip() for worker in workers}
    assert "Done." in answers
    # One that comes when the other has ended is told that there is nothing left to do.
    assert answers <= {"Done.", "RunInProgress", "RunAlreadyCompleted"} and len(answers) == 2
    assert ledger.read_text() == "77\n"


@pytest.mark.parametrize("crashed_before", [False, True])
def test_of_two_tasks_that_take_one_run_one_works(relay: Relay, ledger: Path, crashed_before: bool) -> None:
    @function_tool
    async def pay(order: str) -> str:
        """Pay."""
        with ledger.open("a") as file:
            file.write(f"{order}\n")
        await asyncio.sleep(0.1)
        return "paid"

    async def scenario() -> None:
        scripts: dict[str, list[list[Any]]] = {"Payer": [[call("pay", "p1", order="77")], [message("Done.")]]}
        provider = Provider(scripts, [0] if crashed_before else [])
        agent = Agent[Any](name="Payer", model=provider.model("Payer"), tools=[pay])

        async def run() -> Any:
            return await DurableRunner.run(relay, "r", agent, "Pay", run_config=CONFIG, max_resume_attempts=0)

        if crashed_before:
            with pytest.raises(ConnectionError):
                await run()
        results = await asyncio.gather(run(), run(), return_exceptions=True)
        (won,) = [one for one in results if not isinstance(one, BaseException)]
        (lost,) = [one for one in results if isinstance(one, BaseException)]
        assert won.final_output == "Done."
        assert isinstance(lost, RunInProgress)
        with pytest.raises(RunAlreadyCompleted) as caught:
            await run()
        assert caught.value.result == "Done."

    asyncio.run(scenario())
    assert ledger.read_text() == "77\n"


def test_two_equal_calls_in_one_turn_are_one_effect_and_both_get_its_result(relay: Relay, ledger: Path) -> None:
    def refund(order: str) -> str:
        """Refund."""
        threading.Event().wait(0.1)
        with ledger.open("a") as file:
            file.write(f"{order}\n")
        return f"refunded {order}"

    async def scenario() -> None:
        tool = make_idempotent_function_tool(relay, None, refund, lambda order: order)
        both = [call("refund", "p1", order="O-1"), call("refund", "p2", order="O-1")]
        provider = Provider({"Payer": [both, [message("Done.")]]})
        agent = Agent[Any](name="Payer", model=provider.model("Payer"), tools=[tool])
        result = await DurableRunner.run(relay, "r", agent, "Refund", run_config=CONFIG)
        assert result.final_output == "Done."
        outputs = [one["output"] for one in provider.asked[-1].input if one.get("type") == "function_call_output"]
        assert outputs == ["refunded O-1"] * 2

    asyncio.run(scenario())
    assert ledger.read_text() == "O-1\n"


def test_a_call_that_another_process_runs_is_reported_as_it_is(relay: Relay, path: str, ledger: Path) -> None:
    async def scenario() -> None:
        def refund(order: str) -> str:
            """Refund."""
            raise AssertionError("another process runs it")

        tool = make_idempotent_function_tool(relay, None, refund, lambda order: order, scope="global", wait=0.2)
        provider = Provider({"Payer": [[call("refund", "p1", order="O-1")], [message("Done.")]]})
        agent = Agent[Any](name="Payer", model=provider.model("Payer"), tools=[tool])
        with pytest.raises(CallInProgress):
            await DurableRunner.run(relay, "r", agent, "Refund", run_config=CONFIG)
        assert len(provider.asked) == 1

    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "running\n"
    try:
        asyncio.run(scenario())
    finally:
        holder.kill()
        holder.communicate()


HOLDER = """
import sys, time
from agent_handoff_kit import Relay
from agent_handoff_kit.idempotency import idempotent_tool

def refund(order):
    print("running", flush=True)
    time.sleep(60)

idempotent_tool(Relay(sys.argv[1]), None, key_fn=lambda order: order, scope="global")(refund)("O-1")
"""
