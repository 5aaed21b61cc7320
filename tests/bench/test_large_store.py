"""Recovering one run of many: 100,000 checkpoints in 10,000 runs, against a SELECT by primary key."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from .contender import Contender
from .rounds import in_turn
from .table import BARE, KIT, ORJSON, PUBLISHED, Row, Table

_RUNS = 10_000
_READS = 1_000


def test_recover_in_a_large_store(contenders: dict[str, Contender], table: Table, tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.db" for name in contenders}
    paths[ORJSON] = paths[KIT]
    fillers = (BARE, KIT, PUBLISHED)
    for name in fillers:
        contenders[name].begin("fill", paths[name], runs=_RUNS)
    for name in fillers:
        contenders[name].figure()

    def measured(one: str, _: int) -> float:
        return contenders[one].measure("load", paths[one], runs=_RUNS, count=_READS) * 1000

    figures = in_turn({one: partial(measured, one) for one in contenders}, rounds=5)
    table.add(Row("recover, 100,000 checkpoints", figures, "ms"))
    for path in tmp_path.iterdir():
        path.unlink()
