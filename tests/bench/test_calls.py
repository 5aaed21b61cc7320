"""One idempotent call after the other: first ones, and ones whose result is recorded."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from .contender import Contender
from .rounds import in_turn
from .table import Row, Table


@pytest.mark.parametrize(
    "measure, count, aim",
    [("first_call", 300, "kit <= 3 x an insert"), ("repeated_call", 300, "kit <= 3 x a select")],
)
def test_calls(
    contenders: dict[str, Contender], table: Table, tmp_path: Path, measure: str, count: int, aim: str
) -> None:
    def measured(one: str, turn: int) -> float:
        return contenders[one].measure(measure, tmp_path / f"{one}{turn}.db", count=count) * 1e6

    figures = in_turn({one: partial(measured, one) for one in contenders}, rounds=5)
    table.add(Row(measure.replace("_", " "), figures, "us", aim))
