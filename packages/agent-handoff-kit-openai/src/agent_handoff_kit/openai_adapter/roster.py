"""The agents of a run, each by a name of its own."""

from __future__ import annotations

from typing import Any

from agent_handoff_kit.openai_adapter import _sdk
from agent_handoff_kit.openai_adapter.instrument import instrument_graph


class Roster:
    """Knows each agent of a run by a name that another process gives it, too.

    Args:
        start: the agent that the run starts with; those that can be reached from it are known at once.
    """

    def __init__(self, start: _sdk.Agent[Any]) -> None:
        self._reached = instrument_graph(start)
        self._met: dict[str, _sdk.Agent[Any]] = {}

    @property
    def names(self) -> list[str]:
        """All names."""
        return [*self._reached, *self._met]

    def find(self, name: str) -> _sdk.Agent[Any] | None:
        """The agent of this name."""
        return self._reached.get(name) or self._met.get(name)

    def name_of(self, agent: _sdk.Agent[Any]) -> str:
        """The agent's name; one that is met on the way gets its own, which is no name of the graph's."""
        known = [*self._reached.items(), *self._met.items()]
        found = next((name for name, one in known if one is agent), None)
        return self._add(agent) if found is None else found

    def join(self, agent: _sdk.Agent[Any]) -> None:
        """Let an agent in that the run goes on with, and all that can be reached from it."""
        for one in instrument_graph(agent).values():
            self.name_of(one)

    def _add(self, agent: _sdk.Agent[Any]) -> str:
        name, number = agent.name, 1
        while name in self._reached:
            number += 1
            name = f"{agent.name}#{number}"
        self._met[name] = agent
        return name
