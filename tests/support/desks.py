"""Desks of agents that hand over to each other, each for one way in which a receiver's input comes about."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import Agent, HandoffInputData, ModelSettings, RunConfig, function_tool, handoff
from agents.extensions.handoff_filters import remove_all_tools
from agents.memory import SessionSettings
from agents.run_config import CallModelData, ModelInputData
from agents.tool_context import ToolContext

from tests.support.outputs import call, handover, message, thought
from tests.support.provider import Output, Provider

Filter = Callable[[HandoffInputData], HandoffInputData]


@dataclass(frozen=True)
class Desk:
    """Agents, what their models say, and what the run is given.

    Args:
        scripts: by agent, the first of which starts, the output of each of its model calls.
        handoffs: by agent, to whom it may hand over; each agent to the next by default.
        filters: by receiver, the filter of each handoff to it.
        user_input: what the run is asked.
        config: the fields of the run's configuration.
        runner: further arguments of the runner.
        tool_choice: of every agent.
    """

    scripts: Mapping[str, Sequence[Output]]
    handoffs: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    filters: Mapping[str, Filter] = field(default_factory=dict[str, Filter])
    user_input: Any = "Where is order 77?"
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    runner: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tool_choice: str | None = None

    @property
    def answers(self) -> int:
        """How many model calls the run is worth."""
        return sum(len(outputs) for outputs in self.scripts.values())

    def open(self, provider: Provider, effects: list[str]) -> Agent[Any]:
        """The agents as a process builds them at its start; the one that starts."""

        @function_tool
        async def lookup(ctx: ToolContext[Any], q: str) -> str:
            """Look something up."""
            effects.append(q)
            ctx.context["looked_up"].append(q)
            return f"found {q}"

        settings = ModelSettings(tool_choice=self.tool_choice)
        agents = {
            name: Agent[Any](
                name=name,
                instructions=_instructions,
                model=provider.model(name),
                model_settings=settings,
                tools=[lookup],
            )
            for name in self.scripts
        }
        for name, receivers in self._handoffs().items():
            agents[name].handoffs = [
                handoff(agents[to], input_filter=self.filters[to]) if to in self.filters else agents[to]
                for to in receivers
            ]
        return next(iter(agents.values()))

    def run_config(self) -> RunConfig:
        """The run's configuration."""
        return RunConfig(tracing_disabled=True, **self.config)

    def _handoffs(self) -> Mapping[str, Sequence[str]]:
        names = list(self.scripts)
        return self.handoffs or {one: [other] for one, other in itertools.pairwise(names)}


def _instructions(ctx: Any, agent: Agent[Any]) -> str:
    return f"You are {agent.name}; looked up so far: {ctx.context['looked_up']}"


def _without_earlier_items(data: HandoffInputData) -> HandoffInputData:
    return data.clone(pre_handoff_items=())


def _redacted(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_history="[redacted]", pre_handoff_items=(), new_items=())


def _without_outputs(data: HandoffInputData) -> HandoffInputData:
    kept = tuple(item for item in data.new_items if item.type != "handoff_output_item")
    return data.clone(new_items=kept)


def _summed_up(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_items=tuple(data.new_items[-2:]))


def _last_three(data: CallModelData[Any]) -> ModelInputData:
    return dataclasses.replace(data.model_data, input=data.model_data.input[-3:])


_THREE: dict[str, Sequence[Output]] = {
    "Triage": [[call("lookup", "t1", q="77")], [message("Let me see."), handover("Resolver", "h1")]],
    "Resolver": [[call("lookup", "r1", q="78")], [handover("Closer", "h2")]],
    "Closer": [[call("lookup", "c1", q="79")], [message("Done.")]],
}
_LISTED = [
    {"role": "user", "content": "I ordered a chair."},
    {"role": "assistant", "content": "Noted."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where is it?"}]},
]

DESKS: dict[str, Desk] = {
    "text": Desk(_THREE),
    "list_of_items": Desk(_THREE, user_input=_LISTED),
    "reasoning": Desk(
        {
            "Triage": [
                [thought("look"), call("lookup", "t1", q="77")],
                [thought("pass on"), handover("Resolver", "h1")],
            ],
            "Resolver": [[thought("once more"), call("lookup", "r1", q="78")], [thought("so"), message("Done.")]],
        }
    ),
    "filter_drops_earlier_items": Desk(_THREE, filters={"Resolver": _without_earlier_items}),
    "filter_replaces_all": Desk(_THREE, filters={"Resolver": _redacted, "Closer": _redacted}),
    "filter_leaves_an_orphan": Desk(_THREE, filters={"Resolver": _without_outputs}),
    "filter_for_the_model_only": Desk(_THREE, filters={"Resolver": _summed_up}),
    "filter_removes_tools": Desk(_THREE, filters={"Resolver": remove_all_tools, "Closer": remove_all_tools}),
    "filter_of_the_run": Desk(_THREE, config={"handoff_input_filter": remove_all_tools}),
    "filter_of_model_input": Desk(_THREE, config={"call_model_input_filter": _last_three}),
    "nested_history": Desk(_THREE, config={"nest_handoff_history": True}),
    "tools_in_the_handoff_turn": Desk(
        {
            "Triage": [
                [call("lookup", "t1", q="77"), handover("Resolver", "h1"), call("lookup", "t2", q="78")],
            ],
            "Resolver": [[call("lookup", "r1", q="79"), call("lookup", "r2", q="80")], [message("Done.")]],
        }
    ),
    "two_handoffs_in_a_turn": Desk(
        {
            "Triage": [[handover("Resolver", "h1"), handover("Closer", "h2")]],
            "Resolver": [[call("lookup", "r1", q="77")], [message("Done.")]],
            "Closer": [],
        },
        handoffs={"Triage": ["Resolver", "Closer"]},
    ),
    "back_and_forth": Desk(
        {
            "Triage": [
                [call("lookup", "t1", q="77")],
                [handover("Resolver", "h1")],
                [call("lookup", "t2", q="78")],
                [handover("Resolver", "h3")],
            ],
            "Resolver": [
                [call("lookup", "r1", q="79")],
                [handover("Triage", "h2")],
                [call("lookup", "r2", q="80")],
                [message("Done.")],
            ],
        },
        handoffs={"Triage": ["Resolver"], "Resolver": ["Triage"]},
    ),
    "to_itself": Desk(
        {
            "Triage": [
                [call("lookup", "t1", q="77")],
                [handover("Triage", "h1")],
                [call("lookup", "t2", q="78")],
                [message("Done.")],
            ],
        },
        handoffs={"Triage": ["Triage"]},
    ),
    "tool_choice_required": Desk(
        {
            "Triage": [
                [call("lookup", "t1", q="77")],
                [handover("Resolver", "h1")],
                [call("lookup", "t2", q="78")],
                [message("Done.")],
            ],
            "Resolver": [[call("lookup", "r1", q="79")], [handover("Triage", "h2")]],
        },
        handoffs={"Triage": ["Resolver"], "Resolver": ["Triage"]},
        tool_choice="required",
    ),
}

# A conversation that the server keeps is sent what is new in it only.
SERVER_DESKS: dict[str, Desk] = {
    "previous_response": Desk(_THREE, runner={"previous_response_id": "resp_0"}),
    "automatic_previous_response": Desk(_THREE, runner={"auto_previous_response_id": True}),
    "conversation": Desk(_THREE, runner={"conversation_id": "conv_1"}),
    "chain_of_a_conversation_back_and_forth": Desk(
        DESKS["back_and_forth"].scripts,
        handoffs=DESKS["back_and_forth"].handoffs,
        runner={"previous_response_id": "resp_0"},
    ),
}


def _newest_first(history: list[Any], new: list[Any]) -> list[Any]:
    return [*new, *reversed(history)]


# What a session gives to a run is subject to the run's configuration.
SESSION_DESKS: dict[str, Desk] = {
    "limit": Desk(_THREE, config={"session_settings": SessionSettings(limit=1)}),
    "callback": Desk(_THREE, config={"session_input_callback": _newest_first}),
    "callback_and_filter": Desk(
        _THREE, config={"session_input_callback": _newest_first}, filters={"Resolver": _without_earlier_items}
    ),
}

# The filter of a later handoff, which tells the run's input from the items of earlier turns.
LATER_FILTER = Desk(_THREE, filters={"Closer": _without_earlier_items})
