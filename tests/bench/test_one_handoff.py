"""One caller, one handoff after the other."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from .contender import Contender
from .rounds import in_turn
from .table import Row, Table


@pytest.mark.parametrize(
    "name, size, count, aim",
    [
        ("1 KB", 2**10, 400, "kit <= 1.5, 5 x 0.1.0"),
        ("32 KB", 2**15, 150, "5 x 0.1.0"),
        ("1 MB", 2**20, 12, "orjson <= 0.4"),
    ],
)
def test_one_handoff(
    contenders: dict[str, Contender], table: Table, tmp_path: Path, name: str, size: int, count: int, aim: str
) -> None:
    def measured(one: str, _: int) -> float:
        return contenders[one].measure("one_caller", tmp_path / f"{one}.db", size=size, count=count) * 1000

    figures = in_turn({one: partial(measured, one) for one in contenders}, rounds=5)
    table.add(Row(f"one handoff, {name}", figures, "ms", aim))
