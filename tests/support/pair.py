"""The smallest run with a handoff: triage notes something and hands over to a resolver that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from agents import Agent, RunConfig, Tool

from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.outputs import call, handover, message
from tests.support.provider import Provider

UNTRACED = RunConfig(tracing_disabled=True)
TRIAGE: Sequence[Sequence[Any]] = [[call("note", "t1", text="a")], [handover("Resolver", "h1")]]
RESOLVER: Sequence[Sequence[Any]] = [[call("note", "r1", text="b")], [message("Done.")]]
RESOLVERS_FIRST = len(TRIAGE)


def provider(lost: Collection[int] = ()) -> Provider:
    """The provider of both models, that of the resolver loses its connections."""
    return Provider({"Triage": TRIAGE, "Resolver": RESOLVER}, lost)


def pair(asked: Provider, tools: Sequence[Tool], **of_triage: Any) -> Agent[Any]:
    """Both agents, as a process builds them; the one that starts."""
    resolver = Agent[Any](name="Resolver", model=asked.model("Resolver"), tools=list(tools))
    given: dict[str, Any] = {"handoffs": [resolver], **of_triage}
    return Agent[Any](name="Triage", model=asked.model("Triage"), tools=list(tools), **given)


def run(relay: Relay, agent: Agent[Any], **given: Any) -> Any:
    """A call of the runner for the one run, that is not resumed within it."""
    given = {"run_config": UNTRACED, "max_resume_attempts": 0, **given}
    return asyncio.run(DurableRunner.run(relay, "r", agent, "Help.", **given))


def resume(relay: Relay, agent: Agent[Any], **given: Any) -> Any:
    """The run, gone on with from what is kept of it."""
    given = {"run_config": UNTRACED, "max_resume_attempts": 0, **given}
    return asyncio.run(DurableRunner.resume(relay, "r", agent, **given))
