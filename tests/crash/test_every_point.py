"""A pipeline that is killed at every point resumes: nothing lost, nothing applied twice."""

from __future__ import annotations

import functools
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.billing import RESULT, Place, check, resume, work
from tests.support.crashing import run_and_die

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

POLICIES = ("raise", "retry", "reconcile")
POINTS = 100
DOCUMENT = Path(__file__).parents[2] / "packages" / "agent-handoff-kit" / "docs" / "crash-safety.md"


@pytest.fixture
def scratch() -> Iterator[Path]:
    # Kills lose nothing that was written, on any file system, so memory is as good as a disk and faster.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def place_in(scratch: Path, policy: str, number: object) -> Place:
    folder = scratch / f"{policy}-{number}"
    folder.mkdir()
    return Place(folder, policy)


def count_points(scratch: Path, policy: str) -> int:
    outcome = run_and_die(functools.partial(work, place_in(scratch, policy, "whole")))
    assert outcome.value == RESULT
    return len(outcome.points)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_killed_at_any_point_is_finished_with_each_effect_once(scratch: Path, policy: str) -> None:
    points = count_points(scratch, policy)
    assert points == POINTS
    table: Counter[str] = Counter()
    for number in range(1, points + 1):
        place = place_in(scratch, policy, number)
        assert run_and_die(functools.partial(work, place), number).killed
        table[check(place, resume(place))] += 1
    assert table["doubled"] == 0
    assert (table["in doubt"] > 0) == (policy == "raise")
    row = f"| {policy} | {points} | {table['ok']} | {table['doubled']} | {table['in doubt']} |"
    print(row)
    assert row in DOCUMENT.read_text(), f"crash-safety.md should say {row}"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_killed_twice_is_finished_with_each_effect_once(scratch: Path, policy: str) -> None:
    table: Counter[str] = Counter()
    for first in range(1, POINTS + 1, 6):
        for second in range(1, POINTS + 1, 11):
            place = place_in(scratch, policy, f"{first}-{second}")
            assert run_and_die(functools.partial(work, place), first).killed
            run_and_die(functools.partial(work, place), second)
            table[check(place, resume(place))] += 1
    assert table["doubled"] == 0
    assert table["in doubt"] == 0 or policy == "raise"
    print(f"{policy}, killed twice: {dict(table)}")


def test_a_retry_against_a_service_without_keys_is_seen_to_double(scratch: Path) -> None:
    doubled = 0
    for number in range(1, POINTS + 1):
        place = place_in(scratch, "retry", number)
        place.forgetful = True
        assert run_and_die(functools.partial(work, place), number).killed
        doubled += check(place, resume(place)) == "doubled"
    assert doubled > 0
