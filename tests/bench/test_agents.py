"""What durability adds to a run of agents whose models answer at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool

from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.outputs import call, handover, message
from tests.support.provider import Provider

from .contender import Contender
from .rounds import in_turn
from .table import BARE, KIT, Row, Table

_TURNS = 20
_RUNS = 20
_CONFIG = RunConfig(tracing_disabled=True)


@function_tool
async def look(q: str) -> str:
    """Look something up."""
    return q


def _turning() -> Agent[Any]:
    turns = [[call("look", f"t{number}", q=str(number))] for number in range(_TURNS)]
    provider = Provider({"Looker": [*turns, [message("Done.")]]})
    return Agent(name="Looker", model=provider.model("Looker"), tools=[look])


def _three() -> Agent[Any]:
    scripts: dict[str, list[list[Any]]] = {
        "A": [[call("look", "a1", q="1")], [handover("B", "h1")]],
        "B": [[call("look", "b1", q="2")], [handover("C", "h2")]],
        "C": [[call("look", "c1", q="3")], [message("Done.")]],
    }
    provider = Provider(scripts)
    agents = {name: Agent[Any](name=name, model=provider.model(name), tools=[look]) for name in scripts}
    agents["A"].handoffs = [agents["B"]]
    agents["B"].handoffs = [agents["C"]]
    return agents["A"]


async def _plain(agents: list[Agent[Any]]) -> float:
    began = time.perf_counter()
    for agent in agents:
        await Runner.run(agent, "Hello", run_config=_CONFIG, max_turns=1000)
    return time.perf_counter() - began


async def _durable(relay: Relay, mark: object, agents: list[Agent[Any]]) -> float:
    began = time.perf_counter()
    for number, agent in enumerate(agents):
        await DurableRunner.run(relay, f"{mark} {number}", agent, "Hello", run_config=_CONFIG, max_turns=1000)
    return time.perf_counter() - began


def test_a_turn_with_a_tool(table: Table, tmp_path: Path) -> None:
    with Relay(tmp_path / "run.db") as relay:
        figures = in_turn(
            {
                BARE: lambda number: asyncio.run(_plain([_turning()])) / _TURNS * 1000,
                KIT: lambda number: asyncio.run(_durable(relay, number, [_turning()])) / _TURNS * 1000,
            },
            rounds=5,
        )
    table.add(Row("a turn of an agent (bare: Runner.run)", figures, "ms"))


def test_what_a_run_of_three_agents_takes_longer_beside_one_insert(
    contenders: dict[str, Contender], table: Table, tmp_path: Path
) -> None:
    def longer(number: int) -> float:
        plain = asyncio.run(_plain([_three() for _ in range(_RUNS)]))
        durable = asyncio.run(_durable(relay, number, [_three() for _ in range(_RUNS)]))
        return (durable - plain) / _RUNS * 1000

    with Relay(tmp_path / "run.db") as relay:
        figures = in_turn(
            {
                BARE: lambda number: (
                    contenders[BARE].measure("one_caller", tmp_path / "bare.db", size=1000, count=200) * 1000
                ),
                KIT: longer,
            },
            rounds=5,
        )
    table.add(Row("what a run of 3 agents takes longer (bare: one insert)", figures, "ms"))
