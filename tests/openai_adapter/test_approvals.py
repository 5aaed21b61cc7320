"""What a person has to approve waits for that person, in every process, and runs once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import AlreadyDecided, RunAlreadyCompleted
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.outputs import call, message
from tests.support.provider import Provider

CONFIG = RunConfig(tracing_disabled=True)


async def above_100(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
    return int(arguments.get("amount", 900)) > 100


async def always(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
    return True


GATES: dict[str, tuple[Any, dict[str, Any]]] = {
    "said once": (True, {"amount": 5}),
    "decided by a function": (always, {"amount": 5}),
    "decided by an argument": (above_100, {"amount": 500}),
    "decided by a default": (above_100, {}),
}


class Office:
    """A payer, in each process that works for it."""

    def __init__(self, folder: Path, gate: Any, arguments: dict[str, Any], *, nested: bool = False) -> None:
        self.folder = folder
        self.gate = gate
        self.nested = nested
        self.paid: list[int] = []
        self.provider = Provider(self.scripts("", arguments))

    def scripts(self, mark: str, arguments: dict[str, Any]) -> dict[str, list[list[Any]]]:
        payments: list[list[Any]] = [[call("pay", f"p1{mark}", **arguments)], [message("Paid.")]]
        outer: list[list[Any]] = [[call("delegate", f"d1{mark}", input="pay")], [message("Done.")]]
        return {"Clerk": payments, "Payer": outer} if self.nested else {"Payer": payments}

    def open(self) -> Agent[Any]:
        @function_tool(needs_approval=self.gate)
        async def pay(amount: int = 900) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            return f"paid {amount}"

        if not self.nested:
            return Agent(name="Payer", model=self.provider.model("Payer"), tools=[pay])
        clerk = Agent[Any](name="Clerk", model=self.provider.model("Clerk"), tools=[pay])
        delegate = clerk.as_tool("delegate", "Let the clerk do it")
        return Agent(name="Payer", model=self.provider.model("Payer"), tools=[delegate])

    async def process(self, work: Callable[[Relay, Agent[Any]], Awaitable[Any]]) -> Any:
        with Relay(self.folder / "run.db") as relay:
            return await work(relay, self.open())

    async def start(self) -> Any:
        return await self.process(lambda relay, agent: DurableRunner.run(relay, "r", agent, "Pay", run_config=CONFIG))

    async def resume(self, **decisions: Any) -> Any:
        return await self.process(
            lambda relay, agent: DurableRunner.resume(relay, "r", agent, run_config=CONFIG, **decisions)
        )

    async def status(self) -> Any:
        return await self.process(lambda relay, agent: relay.arun_status("r"))

    @property
    def final(self) -> str:
        return "Done." if self.nested else "Paid."


gates = pytest.mark.parametrize("gate", GATES)
places = pytest.mark.parametrize("nested", [False, True], ids=["root", "nested"])


@gates
@places
def test_a_tool_pauses_as_it_does_without_the_adapter(tmp_path: Path, gate: str, nested: bool) -> None:
    async def scenario() -> None:
        plain, durable = Office(tmp_path, *GATES[gate], nested=nested), Office(tmp_path, *GATES[gate], nested=nested)
        # The SDK keeps waiting agent tools by the ids of their calls, which no two calls of a provider share.
        plain.provider = Provider(plain.scripts("of another run", GATES[gate][1]))
        alone = await Runner.run(plain.open(), "Pay", run_config=CONFIG)
        result = await durable.start()
        assert [one.tool_name for one in alone.interruptions] == ["pay"]
        assert [one.call_id for one in result.interruptions] == ["p1"]
        assert (plain.paid, durable.paid) == ([], [])
        assert await durable.status() == "waiting"

    asyncio.run(scenario())


@gates
@places
def test_what_is_approved_in_another_process_runs_once_and_no_model_is_asked_again(
    tmp_path: Path, gate: str, nested: bool
) -> None:
    async def scenario() -> None:
        office = Office(tmp_path, *GATES[gate], nested=nested)
        waiting = await office.start()
        asked = len(office.provider.asked)
        result = await office.resume(approve=[waiting.interruptions[0].call_id])
        assert result.final_output == office.final
        assert office.paid == [GATES[gate][1].get("amount", 900)]
        assert len(office.provider.asked) == asked + (2 if nested else 1)
        assert await office.status() == "completed"
        with pytest.raises(RunAlreadyCompleted):
            await office.resume(approve=["p1"])
        assert len(office.paid) == 1

    asyncio.run(scenario())


@places
def test_what_is_rejected_never_runs_and_the_model_is_told_why(tmp_path: Path, nested: bool) -> None:
    async def scenario() -> None:
        office = Office(tmp_path, *GATES["said once"], nested=nested)
        await office.start()
        result = await office.resume(reject=["p1"], rejection_message="not this month")
        assert result.final_output == office.final
        assert office.paid == []
        assert "not this month" in json.dumps([one.input for one in office.provider.asked], default=str)

    asyncio.run(scenario())


@places
@pytest.mark.parametrize("again", ["start", "resume"])
def test_without_a_decision_the_same_call_waits_and_no_model_is_asked(tmp_path: Path, nested: bool, again: str) -> None:
    async def scenario() -> None:
        office = Office(tmp_path, *GATES["said once"], nested=nested)
        first = await office.start()
        asked = len(office.provider.asked)
        for _ in range(2):
            result = await getattr(office, again)()
            assert [one.call_id for one in result.interruptions] == [one.call_id for one in first.interruptions]
            assert await office.status() == "waiting"
        assert len(office.provider.asked) == asked
        assert office.paid == []

    asyncio.run(scenario())


@pytest.mark.parametrize("approved", [True, False])
def test_decisions_made_on_the_state_of_the_sdk_are_taken(tmp_path: Path, approved: bool) -> None:
    async def scenario() -> None:
        office = Office(tmp_path, *GATES["said once"])

        async def decide(relay: Relay, agent: Agent[Any]) -> Any:
            waiting = await DurableRunner.run(relay, "r", agent, "Pay", run_config=CONFIG)
            state = waiting.to_state()
            (state.approve if approved else state.reject)(waiting.interruptions[0])
            return await DurableRunner.run(relay, "r", agent, state, run_config=CONFIG)

        result = await office.process(decide)
        assert result.final_output == "Paid."
        assert office.paid == ([5] if approved else [])

    asyncio.run(scenario())


def test_what_is_always_approved_does_not_wait_again_after_a_crash(tmp_path: Path) -> None:
    async def scenario() -> None:
        office = Office(tmp_path, *GATES["said once"])
        twice: list[list[Any]] = [[call("pay", "p1", amount=5)], [call("pay", "p2", amount=6)], [message("Paid.")]]
        office.provider = Provider({"Payer": twice}, lost=[1, 2])
        waiting = await office.start()
        decisions: dict[str, Any] = {"approve": [waiting.interruptions[0]], "always": True, "max_resume_attempts": 0}
        for _ in range(2):
            with pytest.raises(ConnectionError):
                await office.resume(**decisions)
            decisions = {"max_resume_attempts": 0}
        result = await office.resume(**decisions)
        assert result.final_output == "Paid."
        assert office.paid == [5, 6]

    asyncio.run(scenario())


def test_what_pauses_pauses_after_a_crash_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        office = Office(tmp_path, *GATES["decided by a default"])
        once: list[list[Any]] = [[call("pay", "p1")], [message("Paid.")]]
        office.provider = Provider({"Payer": once}, lost=[0])
        result = await office.start()
        assert [one.call_id for one in result.interruptions] == ["p1"]
        assert office.paid == []

    asyncio.run(scenario())


def test_of_two_calls_in_one_turn_only_the_approved_one_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        office = Office(tmp_path, *GATES["said once"])
        both: list[list[Any]] = [[call("pay", "p1", amount=5), call("pay", "p2", amount=6)], [message("Paid.")]]
        office.provider = Provider({"Payer": both})
        waiting = await office.start()
        assert [one.call_id for one in waiting.interruptions] == ["p1", "p2"]
        still = await office.resume(approve=["p1"])
        assert [one.call_id for one in still.interruptions] == ["p2"]
        result = await office.resume(reject=["p2"])
        assert result.final_output == "Paid."
        assert office.paid == [5]

    asyncio.run(scenario())


@pytest.mark.parametrize("approved", [True, False])
def test_the_first_word_on_a_call_stands(tmp_path: Path, approved: bool) -> None:
    async def scenario() -> None:
        office = Office(tmp_path, *GATES["said once"])
        once: list[list[Any]] = [[call("pay", "p1", amount=5)], [message("Paid.")]]
        office.provider = Provider({"Payer": once}, lost=[1])
        await office.start()
        words = ("approve", "reject") if approved else ("reject", "approve")
        with pytest.raises(ConnectionError):
            await office.resume(**{words[0]: ["p1"]}, max_resume_attempts=0)
        with pytest.raises(AlreadyDecided) as caught:
            await office.resume(**{words[1]: ["p1"]})
        assert (caught.value.run_id, caught.value.call_id) == ("r", "p1")
        assert caught.value.decision == ("approved" if approved else "rejected")
        result = await office.resume(**{words[0]: ["p1"]})
        assert result.final_output == "Paid."
        assert office.paid == ([5] if approved else [])
        told = json.dumps(office.provider.asked[-1].input, default=str)
        assert ("paid 5" in told) is approved

    asyncio.run(scenario())
