"""A run and its session: one that fails, one that somebody else changed, one that wants to know its run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, SQLiteSession, UserError, function_tool, handoff

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreDamaged
from tests.support.pair import RESOLVERS_FIRST, pair, provider, run
from tests.support.provider import Provider

HELD_BEFORE: list[Any] = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good day."}]
MODEL_CALLS = 4


@function_tool
async def note(text: str) -> str:
    """Note something."""
    return text


class Failing(SQLiteSession):
    """A session that loses its connection at one append, before or after it is written."""

    def __init__(self, file: Path, at: int | None = None, written: bool = False) -> None:
        super().__init__("s", file)
        self.appends = 0
        self._at, self._written = at, written

    async def add_items(self, items: list[Any]) -> None:
        self.appends += 1
        if self.appends - 1 != self._at:
            return await super().add_items(items)
        if self._written:
            await super().add_items(items)
        raise ConnectionError("the session is lost")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.db"


@pytest.fixture
def session(file: Path) -> Iterator[SQLiteSession]:
    one = SQLiteSession("s", file)
    yield one
    one.close()


def items_of(session: SQLiteSession) -> list[Any]:
    return asyncio.run(session.get_items())


def undisturbed(folder: Path) -> tuple[list[Any], int]:
    """What a run leaves in its session, and in how many appends."""
    session = Failing(folder / "undisturbed-session.db")
    with Relay(folder / "undisturbed.db") as relay:
        run(relay, pair(provider(), [note]), session=session)
    items = items_of(session)
    session.close()
    return items, session.appends


@pytest.mark.parametrize("written", [False, True], ids=["not_written", "written"])
@pytest.mark.parametrize("resumes", [0, 1], ids=["new_process", "resumed"])
def test_a_session_that_fails_at_any_append_ends_as_if_it_had_not(tmp_path: Path, resumes: int, written: bool) -> None:
    expected, appends = undisturbed(tmp_path)
    for at in range(appends):
        asked = provider()
        session = Failing(tmp_path / f"{at}-session.db", at, written)
        with Relay(tmp_path / f"{at}.db") as relay:
            for _ in range(2 - resumes):
                try:
                    run(relay, pair(asked, [note]), session=session, max_resume_attempts=resumes)
                except ConnectionError:
                    continue
            assert relay.run_status("r") == "completed", f"append {at}"
        assert items_of(session) == expected, f"append {at}"
        assert len(asked.asked) == MODEL_CALLS, f"append {at}"
        session.close()


async def shortened(session: SQLiteSession) -> None:
    await session.pop_item()


async def extended(session: SQLiteSession) -> None:
    await session.add_items([{"role": "user", "content": "And order 78?"}])


async def replaced(session: SQLiteSession) -> None:
    await shortened(session)
    await extended(session)


def changed_while_stopped(relay: Relay, session: SQLiteSession, asked: Provider, change: Any) -> None:
    """A run that lost its connection, and a change of its session before it goes on."""
    asyncio.run(session.add_items(HELD_BEFORE))
    with pytest.raises(ConnectionError):
        run(relay, pair(asked, [note]), session=session)
    asyncio.run(change(session))


@pytest.mark.parametrize(
    "change, lost",
    [*((extended, lost) for lost in range(MODEL_CALLS)), (shortened, 2), (replaced, 0), (replaced, 1), (replaced, 3)],
)
def test_a_session_that_somebody_else_changed_is_named_and_keeps_its_items(
    relay: Relay, session: SQLiteSession, change: Any, lost: int
) -> None:
    asked = provider(lost=[lost])
    changed_while_stopped(relay, session, asked, change)
    before = items_of(session)
    with pytest.raises(StoreDamaged, match="session 's'"):
        run(relay, pair(asked, [note]), session=session)
    assert items_of(session) == before
    assert relay.run_status("r") == "open"


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_an_item_lost_since_the_resume_point_is_appended_again(
    relay: Relay, session: SQLiteSession, tmp_path: Path, lost: int
) -> None:
    expected, _ = undisturbed(tmp_path)
    asked = provider(lost=[lost])
    changed_while_stopped(relay, session, asked, shortened)
    run(relay, pair(asked, [note]), session=session)
    assert items_of(session) == [*HELD_BEFORE, *expected]


class Informed:
    """A session that is told of the run's context at each of its methods."""

    session_id = "s"
    session_settings = None

    def __init__(self, file: Path) -> None:
        self.told: list[Any] = []
        self._held = SQLiteSession("s", file)

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        self.told.append(wrapper)
        return await self._held.get_items(limit)

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        self.told.append(wrapper)
        await self._held.add_items(items)

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        self.told.append(wrapper)
        return await self._held.pop_item()

    async def clear_session(self, *, wrapper: Any = None) -> None:
        self.told.append(wrapper)
        await self._held.clear_session()

    def close(self) -> None:
        self._held.close()


def test_a_session_that_wants_the_runs_context_gets_it_from_the_run(relay: Relay, file: Path) -> None:
    session = Informed(file)
    context = {"customer": 7}
    asked = provider(lost=[RESOLVERS_FIRST])
    run(relay, pair(asked, [note]), session=session, context=context, max_resume_attempts=1)
    told = [one.context for one in session.told if one is not None]
    assert len(told) >= MODEL_CALLS
    assert all(one is context for one in told)
    session.close()


@pytest.mark.parametrize(
    "given", [{"conversation_id": "c"}, {"previous_response_id": "p"}, {"auto_previous_response_id": True}], ids=str
)
def test_a_session_beside_a_conversation_of_the_server_is_refused_before_a_model_call(
    relay: Relay, session: SQLiteSession, given: dict[str, Any]
) -> None:
    asked = provider()
    with pytest.raises(UserError):
        run(relay, pair(asked, [note]), session=session, **given)
    assert asked.asked == []


@pytest.mark.parametrize("given", [{"conversation_id": "c"}, {"auto_previous_response_id": True}], ids=str)
def test_a_filter_beside_a_conversation_of_the_server_is_refused_before_its_receiver_runs(
    relay: Relay, given: dict[str, Any]
) -> None:
    asked = provider()
    resolver = Agent[Any](name="Resolver", model=asked.model("Resolver"))
    filtered = handoff(resolver, input_filter=lambda data: data)
    with pytest.raises(UserError):
        run(relay, pair(asked, [note], handoffs=[filtered]), **given)
    assert [one.agent for one in asked.asked] == ["Triage"] * 2
