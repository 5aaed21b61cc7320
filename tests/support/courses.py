"""Runs a desk of agents over as many processes as it takes, and tells what happened."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.memory import Session

from agent_handoff_kit import Relay
from agent_handoff_kit.openai_adapter import DurableRunner
from tests.support.desks import Desk
from tests.support.provider import Asked, Provider

Backend = Callable[[Path], Session]


@dataclass
class Course:
    """What a run did, over all processes that worked on it."""

    asked: list[Asked]
    effects: list[str] = field(default_factory=list[str])
    output: Any = None
    context: Any = None
    usage: Any = None
    session: list[Any] = field(default_factory=list[Any])

    @property
    def outcome(self) -> Any:
        """What is left of the run, in the process that ended it and outside."""
        return self.output, self.context, self.usage, self.effects, self.session


@dataclass(frozen=True)
class Conditions:
    """What a run meets: which answers are lost, how often one process resumes it, how it is read, its session."""

    lost: Collection[int] = ()
    resumes: int = 0
    streamed: bool = False
    backend: Backend | None = None
    held_before: Collection[Any] = ()


def course_of(desk: Desk, folder: Path, conditions: Conditions) -> Course:
    """The run from its start to its end, in a new process whenever one fails."""
    folder.mkdir()
    provider = Provider(desk.scripts, conditions.lost)
    course = Course(provider.asked)
    asyncio.run(_seed(folder, conditions))
    for _ in range(desk.answers + 1):
        try:
            asyncio.run(_process(desk, provider, course, folder, conditions))
        except ConnectionError:
            continue
        return course
    raise AssertionError("the run never ended")


async def _seed(folder: Path, conditions: Conditions) -> None:
    async with _opened(conditions, folder) as session:
        if session is not None:
            await session.add_items(list(conditions.held_before))


async def _process(desk: Desk, provider: Provider, course: Course, folder: Path, conditions: Conditions) -> None:
    async with _opened(conditions, folder) as session:
        await _run(desk, provider, course, folder, conditions, session)


@asynccontextmanager
async def _opened(conditions: Conditions, folder: Path) -> AsyncGenerator[Any, None]:
    session: Any = None if conditions.backend is None else conditions.backend(folder / "session.db")
    try:
        yield session
    finally:
        closing = None if session is None else session.close()
        if inspect.isawaitable(closing):
            await closing


async def _run(
    desk: Desk, provider: Provider, course: Course, folder: Path, conditions: Conditions, session: Any
) -> None:
    context: dict[str, Any] = {"looked_up": []}
    agent = desk.open(provider, course.effects)
    given: dict[str, Any] = {
        "context": context,
        "session": session,
        "run_config": desk.run_config(),
        "max_resume_attempts": conditions.resumes,
        "max_turns": desk.answers,
        **desk.runner,
    }
    with Relay(folder / "run.db", durability="os") as relay:
        if conditions.streamed:
            result: Any = DurableRunner.run_streamed(relay, "r", agent, desk.user_input, **given)
            _ = [event async for event in result.stream_events()]
        else:
            result = await DurableRunner.run(relay, "r", agent, desk.user_input, **given)
    course.output, course.context, course.usage = result.final_output, context, result.context_wrapper.usage
    course.session = [] if session is None else await session.get_items()
