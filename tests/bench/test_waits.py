"""The longest that anybody waits: 8 threads on one store, 4 processes on one file."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from .contender import Contender
from .table import BARE, KIT, PUBLISHED, Row, Table

_ROUNDS = 3
_SECONDS = 1.0


def together(team: list[Contender], path: Path, workers: int) -> float:
    """The worst wait in a team of processes whose threads begin together."""
    begin = time.time() + 0.5
    for one in team:
        one.begin("worst_wait", path, workers=workers, begin=begin, seconds=_SECONDS)
    return max([one.figure() for one in team])


def worst(teams: dict[str, list[Contender]], folder: Path, workers: int) -> dict[str, float]:
    """The worst wait of each team over rounds in turn, in milliseconds."""
    found = dict.fromkeys(teams, 0.0)
    for _ in range(_ROUNDS):
        for name, team in teams.items():
            found[name] = max(found[name], together(team, folder / f"{name}.db", workers) * 1000)
    return found


def add(table: Table, what: str, figures: dict[str, float], aim: float) -> None:
    table.add(Row(f"worst wait, {what}", figures, "ms", f"{aim:.0f} ms; was {figures[KIT]:.0f} ms"))


def test_threads(contenders: dict[str, Contender], table: Table, tmp_path: Path) -> None:
    teams = {name: [contenders[name]] for name in (BARE, KIT, PUBLISHED)}
    add(table, "8 threads", worst(teams, tmp_path, 8), 50)


def test_processes(old_python: Path, table: Table, tmp_path: Path) -> None:
    makers = {
        BARE: partial(Contender, "bare"),
        KIT: partial(Contender, "kit"),
        PUBLISHED: partial(Contender, "published", old_python),
    }
    with ExitStack() as stack:
        teams = {name: [stack.enter_context(make()) for _ in range(4)] for name, make in makers.items()}
        add(table, "4 processes", worst(teams, tmp_path, 1), 500)
