"""The run of agents that crash tests kill: three agents, tools with and without a declaration, an agent as a tool."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, SQLiteSession, Usage, function_tool
from agents.tool_context import ToolContext

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import RunAlreadyCompleted
from agent_handoff_kit.idempotency import Applied, Call, NotApplied
from agent_handoff_kit.openai_adapter import DurableRunner, make_idempotent_function_tool
from tests.support.crashing import Outcome, Point, run_and_die
from tests.support.outputs import call, handover, message
from tests.support.provider import whole_response

QUESTION = "I was charged twice for order 77."
SCRIPTS: dict[str, Sequence[Sequence[Any]]] = {
    "Triage": [
        [call("note", "t1", text="twice"), call("research", "t2", input="order 77")],
        [handover("Resolver", "h1")],
    ],
    "Researcher": [[call("note", "n1", text="looked up")], [message("Order 77 was charged twice.")]],
    "Resolver": [[call("refund", "r1", order="77"), call("note", "r2", text="refunded")], [handover("Closer", "h2")]],
    "Closer": [[call("pay", "c1", order="77")], [message("Done.")]],
}
MODEL_CALLS = sum(map(len, SCRIPTS.values()))
DECLARED = ("refund 77", "pay 77")
NOTES = {"t1": "note twice", "n1": "note looked up", "r2": "note refunded"}


@dataclass
class Desk:
    """Where one case keeps its store, its session, and the ledgers that survive every kill."""

    folder: Path
    streamed: bool = False

    @property
    def database(self) -> Path:
        return self.folder / "run.db"

    def ledger(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def append(self, name: str, line: str) -> None:
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    def recorded(self, kind: str) -> list[str]:
        """The keys of the journal's durable records of one kind."""
        if not self.database.exists():
            return []
        with closing(sqlite3.connect(self.database)) as connection:
            tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal'").fetchone()
            found = connection.execute("SELECT key FROM journal WHERE key LIKE ?", (f"{kind}:%",)) if tables else ()
            return [key for (key,) in found]


class Paid(Model):
    """A model that notes each answer as paid; which one it gives is told by what it is shown."""

    def __init__(self, agent: str, desk: Desk, point: Point) -> None:
        self._agent, self._desk, self._point = agent, desk, point

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        number = _answers_shown(self._agent, input)
        self._point(f"before {self._agent} {number}")
        self._desk.append("models", f"{self._agent} {number}")
        self._point(f"after {self._agent} {number}")
        usage = Usage(requests=1, input_tokens=10, output_tokens=number + 1, total_tokens=11 + number)
        return ModelResponse(
            output=list(SCRIPTS[self._agent][number]), usage=usage, response_id=f"resp_{self._agent}_{number}"
        )

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        yield whole_response(await self.get_response(*args, **kwargs))


def _answers_shown(agent: str, input: Any) -> int:
    shown = {item.get("call_id") for item in input if isinstance(item, dict)} if isinstance(input, list) else set()
    return sum(all(one.call_id in shown for one in answer) for answer in SCRIPTS[agent][:-1])


def build(desk: Desk, relay: Relay, point: Point) -> Agent[Any]:
    """The agents, as each process builds them at its start."""

    def effect(ctx: ToolContext[Any], line: str) -> str:
        point(f"before {line}")
        desk.append("effects", line)
        point(f"after {line}")
        ctx.context["log"].append(line)
        return line

    @function_tool
    async def note(ctx: ToolContext[Any], text: str) -> str:
        """Note something."""
        return effect(ctx, f"note {text}")

    def reconcile(call: Call) -> Any:
        line = f"{call.tool} {call.arguments['order']}"
        if line not in desk.ledger("effects"):
            return NotApplied
        # What the tool did to the context died with its process.
        call.arguments["ctx"].context["log"].append(line)
        return Applied(line)

    async def refund(ctx: ToolContext[Any], order: str) -> str:
        """Refund an order."""
        return effect(ctx, f"refund {order}")

    async def pay(ctx: ToolContext[Any], order: str) -> str:
        """Pay for an order."""
        return effect(ctx, f"pay {order}")

    once = functools.partial(
        make_idempotent_function_tool, relay, None, key_fn=lambda ctx, order: order, on_in_doubt=reconcile
    )
    agents = {name: Agent[Any](name=name, model=Paid(name, desk, point)) for name in SCRIPTS}
    research = agents["Researcher"].as_tool("research", "Look into a question")
    agents["Researcher"].tools = [note]
    agents["Triage"].tools = [note, research]
    agents["Triage"].handoffs = [agents["Resolver"]]
    agents["Resolver"].tools = [once(fn=refund), note]
    agents["Resolver"].handoffs = [agents["Closer"]]
    agents["Closer"].tools = [once(fn=pay, needs_approval=True)]
    return agents["Triage"]


def work(desk: Desk, point: Point) -> dict[str, Any]:
    """The process under test: it starts the run or goes on with it, and a person approves where it waits."""
    return asyncio.run(_work(desk, point))


async def _work(desk: Desk, point: Point) -> dict[str, Any]:
    context: dict[str, Any] = {"log": []}
    with closing(SQLiteSession("s", desk.folder / "session.db")) as session, Relay(desk.database) as relay:
        agent = build(desk, relay, point)
        given: dict[str, Any] = {
            "context": context,
            "session": session,
            "serial_tools": True,
            "run_config": RunConfig(tracing_disabled=True),
        }
        try:
            result = await _started(desk, relay, agent, given)
            while result.interruptions:
                point("a person decides")
                approve = [one.call_id for one in result.interruptions]
                result = await DurableRunner.resume(relay, "r", agent, approve=approve, **given)
        except RunAlreadyCompleted as done:
            return {"output": done.result, "session": await session.get_items()}
        usage = result.context_wrapper.usage
        return {
            "output": result.final_output,
            "session": await session.get_items(),
            "context": context,
            "usage": (usage.requests, usage.input_tokens, usage.output_tokens, usage.total_tokens),
            "items": result.to_input_list(mode="normalized"),
        }


async def _started(desk: Desk, relay: Relay, agent: Agent[Any], given: dict[str, Any]) -> Any:
    if not desk.streamed:
        return await DurableRunner.run(relay, "r", agent, QUESTION, **given)
    result: Any = DurableRunner.run_streamed(relay, "r", agent, QUESTION, **given)
    async for _ in result.stream_events():
        pass
    return result


@dataclass(frozen=True)
class Unrecorded:
    """What a killed process had done, and nothing durable tells of."""

    models: int
    notes: Counter[str]


def unrecorded(desk: Desk) -> Unrecorded:
    """What may have to be done again."""
    durable = {key.rsplit(":", 1)[1] for key in desk.recorded("tool")}
    done = Counter(desk.ledger("effects"))
    notes = Counter({line: done[line] for call_id, line in NOTES.items() if call_id not in durable and done[line]})
    return Unrecorded(len(desk.ledger("models")) - len(desk.recorded("model")), notes)


def finish(desk: Desk) -> Outcome:
    """Start the process again and let it end."""
    return run_and_die(functools.partial(work, desk))


def check(desk: Desk, outcome: Outcome, whole: dict[str, Any], lost: Unrecorded) -> None:
    """Hold a run that was killed against the one that was not."""
    assert outcome.error is None, outcome.error
    # A process that comes after the end gets the stored output alone.
    assert outcome.value == {name: whole[name] for name in outcome.value}
    assert len(desk.ledger("models")) == MODEL_CALLS + lost.models
    assert lost.models in (0, 1)
    assert Counter(desk.ledger("effects")) == Counter([*DECLARED, *NOTES.values()]) + lost.notes
    with Relay(desk.database) as relay:
        assert relay.run_status("r") == "completed"
        assert [one.to_agent for one in relay.history("r")] == ["Resolver", "Closer"]
    assert told_outcome(desk)["turns"] == 6


def told_outcome(desk: Desk) -> dict[str, Any]:
    """What the run's end says of the whole run."""
    with closing(sqlite3.connect(desk.database)) as connection:
        (data,) = connection.execute("SELECT data FROM journal WHERE key = 'outcome'").fetchone()
    told: dict[str, Any] = json.loads(data)
    return told
