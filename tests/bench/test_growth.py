"""A run of 1,000 handoffs whose history grows by four messages, against a bare insert of the new ones.

0.1.0 runs once, not in rounds: it writes a gigabyte.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from .contender import Contender
from .rounds import in_turn
from .table import BARE, KIT, ORJSON, PUBLISHED, Row, Table

_HOPS = 1_000


def test_growth(contenders: dict[str, Contender], table: Table, tmp_path: Path) -> None:
    def measured(one: str, whole: bool, number: int) -> float:
        path = tmp_path / f"{one}-{whole}-{number}.db"
        figure = contenders[one].measure("growth", path, hops=_HOPS, whole=whole)
        path.unlink()
        return figure

    runs = [(BARE, False), (KIT, True), (ORJSON, True), (KIT, False), (ORJSON, False)]
    figures = in_turn({f"{one} {whole}": partial(measured, one, whole) for one, whole in runs})
    limits = {BARE: figures[f"{BARE} False"], PUBLISHED: measured(PUBLISHED, True, 0)}
    for whole, what, aim in (
        (True, "whole list", "8 x 0.1.0, orjson 20 x"),
        (False, "new_messages=", "20 x 0.1.0"),
    ):
        ours = {one: figures[f"{one} {whole}"] for one in (KIT, ORJSON)}
        row = table.add(Row(f"{_HOPS} growing handoffs, {what}", {**limits, **ours}, "s", aim))
        if not whole:
            assert row.gain() >= 20
