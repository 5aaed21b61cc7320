"""A run of agents that is killed at any point ends as if it had never stopped."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ticket import Desk, check, finish, killed, unrecorded, work

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

POINTS = 242

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
    # How the SDK keeps its session is its own affair, but it may be killed there too.
    assert sum(not one.startswith("session ") for one in points) == POINTS
    for number in range(first, len(points) + 1, stride):
        desk = desk_in(scratch, number, streamed)
        killed(desk, number)
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
