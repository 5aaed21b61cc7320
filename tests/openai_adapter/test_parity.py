"""A run that loses its connection at any model call asks its models exactly what the undisturbed run asks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from agents import SQLiteSession
from agents.extensions.memory import AsyncSQLiteSession

from tests.support.courses import Backend, Conditions, Course, course_of
from tests.support.desks import DESKS, LATER_FILTER, SERVER_DESKS, SESSION_DESKS, Desk
from tests.support.provider import Asked

HELD_BEFORE = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good day."}]
NAMES = ("Resolver", "Closer")
BACKENDS: dict[str, Backend] = {
    "blocking_session": lambda file: SQLiteSession("s", file),
    "awaitable_session": lambda file: AsyncSQLiteSession("s", file),
}

# What an agent is given does not depend on how its session is kept, so the second backend has fewer desks.
ALL_DESKS = {**DESKS, **SESSION_DESKS}
DESKS_OF_BACKENDS = {
    "blocking_session": list(ALL_DESKS),
    "awaitable_session": ["text", "filter_replaces_all", "nested_history", "back_and_forth"],
}

modes = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
desks = pytest.mark.parametrize("desk", [*DESKS.values(), *SERVER_DESKS.values()], ids=[*DESKS, *SERVER_DESKS])


def repeated(asked: list[Asked], lost: Collection[int]) -> list[Asked]:
    """The undisturbed calls, where each lost one is made twice."""
    return [call for place, call in enumerate(asked) for _ in range(2 if place in lost else 1)]


def check(course: Course, undisturbed: Course, lost: Collection[int]) -> None:
    assert course.asked == repeated(undisturbed.asked, lost), f"lost {lost}"
    assert course.outcome == undisturbed.outcome, f"lost {lost}"


@modes
@desks
def test_a_run_resumed_after_every_model_call_asks_what_the_undisturbed_run_asks(
    desk: Desk, streamed: bool, tmp_path: Path
) -> None:
    undisturbed = course_of(desk, tmp_path / "undisturbed", Conditions(streamed=streamed))
    assert len(undisturbed.asked) == desk.answers
    every = range(desk.answers)
    check(course_of(desk, tmp_path / "resumed", Conditions(every, desk.answers, streamed)), undisturbed, every)


@modes
@desks
def test_a_run_continued_by_another_process_asks_what_the_undisturbed_run_asks(
    desk: Desk, streamed: bool, tmp_path: Path
) -> None:
    undisturbed = course_of(desk, tmp_path / "undisturbed", Conditions(streamed=streamed))
    every = range(desk.answers)
    for lost in [*([one] for one in every), every]:
        check(course_of(desk, tmp_path / f"lost {lost}", Conditions(lost, 0, streamed)), undisturbed, lost)


@modes
@pytest.mark.parametrize(
    "desk, backend",
    [(ALL_DESKS[desk], backend) for name, backend in BACKENDS.items() for desk in DESKS_OF_BACKENDS[name]],
    ids=[f"{name}-{desk}" for name in BACKENDS for desk in DESKS_OF_BACKENDS[name]],
)
def test_a_session_ends_as_if_the_run_had_never_stopped(
    desk: Desk, backend: Backend, streamed: bool, tmp_path: Path
) -> None:
    def conditions(lost: Collection[int] = (), resumes: int = 0) -> Conditions:
        return Conditions(lost, resumes, streamed, backend, HELD_BEFORE)

    undisturbed = course_of(desk, tmp_path / "undisturbed", conditions())
    assert len(undisturbed.session) > len(HELD_BEFORE)
    every = range(desk.answers)
    for lost in [*([one] for one in every), every]:
        check(course_of(desk, tmp_path / f"lost {lost}", conditions(lost)), undisturbed, lost)
    check(course_of(desk, tmp_path / "resumed", conditions(every, desk.answers)), undisturbed, every)


@modes
def test_a_later_filter_of_earlier_items_has_them_in_the_input_history_after_a_resume(
    streamed: bool, tmp_path: Path
) -> None:
    undisturbed = course_of(LATER_FILTER, tmp_path / "undisturbed", Conditions(streamed=streamed)).asked
    resolvers, closers = ([place for place, one in enumerate(undisturbed) if one.agent == name] for name in NAMES)
    course = course_of(LATER_FILTER, tmp_path / "resumed", Conditions([resolvers[0]], 1, streamed)).asked
    untouched = repeated(undisturbed[: closers[0]], [resolvers[0]])
    assert course[: len(untouched)] == untouched
    for place, one in enumerate(course[len(untouched) :]):
        (question, *new) = undisturbed[closers[place]].input
        assert question == {"content": LATER_FILTER.user_input, "role": "user"}
        assert one == replace(undisturbed[closers[place]], input=[*undisturbed[resolvers[0]].input, *new])
    assert len(course) == len(undisturbed) + 1
