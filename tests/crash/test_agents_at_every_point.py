"""A run of agents that is killed at any point ends as if it had never stopped."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.crashing import run_and_die
from tests.support.ticket import Desk, check, finish, unrecorded, work

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

STEPS = 57
NAMED = ("before ", "after ", "a person ")

modes = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def scratch() -> Iterator[Path]:
    # Kills lose nothing that was written, on any file system, so memory is as good as a disk and faster.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def desk_in(scratch: Path, name: object, streamed: bool) -> Desk:
    folder = scratch / str(name)
    folder.mkdir()
    return Desk(folder, streamed)


def undisturbed(scratch: Path, streamed: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    # What the SDK makes at its first use takes longer than a run; the children find it made.
    work(desk_in(scratch, "first use", streamed), lambda point: None)
    outcome = finish(desk_in(scratch, "undisturbed", streamed))
    assert outcome.error is None, outcome.error
    return outcome.value, outcome.points


def kill_and_resume(scratch: Path, streamed: bool, first: int, stride: int) -> None:
    whole, points = undisturbed(scratch, streamed)
    # Of statements there may be some more or less: the writer's thread sometimes finds its work done.
    assert sum(one == "run COMMIT" or one.startswith(NAMED) for one in points) == STEPS
    for number in range(first, len(points) + 1, stride):
        desk = desk_in(scratch, number, streamed)
        outcome = run_and_die(functools.partial(work, desk), number)
        assert outcome.killed or number > len(outcome.points)
        lost = unrecorded(desk)
        check(desk, finish(desk), whole, lost)


@modes
def test_a_run_of_agents_killed_at_some_points_ends_as_if_it_had_never_stopped(scratch: Path, streamed: bool) -> None:
    kill_and_resume(scratch, streamed, 1 + 4 * streamed, 11)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@modes
def test_a_run_of_agents_killed_at_any_point_ends_as_if_it_had_never_stopped(scratch: Path, streamed: bool) -> None:
    kill_and_resume(scratch, streamed, 1, 1)
