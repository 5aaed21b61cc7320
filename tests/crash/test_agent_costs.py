"""What durability costs a run of agents, counted in syncs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import disk

RUN = """
import asyncio, ctypes, json, sys
from agents import Agent, RunConfig, function_tool
from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import DurableRunner, make_idempotent_function_tool
from tests.support.outputs import call, handover, message
from tests.support.provider import Provider

path, agents, turns, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
syncs = ctypes.CDLL(None).sync_calls
relay = Relay(path)

def look(q: str) -> str:
    "Look up."
    return q

tools = {"plain": function_tool(look), "declared": make_idempotent_function_tool(relay, None, look, lambda q: q)}
names = [f"A{number}" for number in range(agents)]
ends = [*([handover(name, f"h-{name}")] for name in names[1:]), [message("Done.")]]
scripts = {
    name: [*([call("look", f"{name}-{turn}", q=f"{name}-{turn}")] for turn in range(turns)), end]
    for name, end in zip(names, ends)
}
provider = Provider(scripts)
made = [Agent(name=name, model=provider.model(name), tools=[tools[kind]]) for name in names]
for one, other in zip(made, made[1:]):
    one.handoffs = [other]

async def main():
    relay.handoff("warm", "a", "b", {})
    before = syncs()
    result = await DurableRunner.run(
        relay, "r", made[0], "Hello", run_config=RunConfig(tracing_disabled=True), max_turns=1000
    )
    assert result.final_output == "Done."
    print(json.dumps(syncs() - before))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return disk.build(tmp_path_factory.mktemp("shim"))


def counted(shim: Path, path: Path, agents: int, turns: int, kind: str = "plain") -> int:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path), str(agents), str(turns), kind],
        cwd=disk.ROOT,
        env={**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": str(disk.ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout))


# Taking and freeing the lease, keeping the input, completing.
RUN_ITSELF = 4


@pytest.mark.parametrize("agents, turns", [(1, 0), (1, 3), (3, 0), (3, 2)])
def test_a_run_of_agents_costs_a_sync_for_each_response_result_and_handoff(
    shim: Path, tmp_path: Path, agents: int, turns: int
) -> None:
    responses, results, handoffs = agents * (turns + 1), agents * turns, agents - 1
    assert counted(shim, tmp_path / "run.db", agents, turns) == RUN_ITSELF + responses + results + handoffs


def test_a_declared_tool_costs_two_syncs_more(shim: Path, tmp_path: Path) -> None:
    plain, declared = (counted(shim, tmp_path / f"{kind}.db", 1, 3, kind) for kind in ("plain", "declared"))
    assert declared == plain + 2 * 3
