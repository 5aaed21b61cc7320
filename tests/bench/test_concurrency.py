"""Many callers at once, against one connection for each thread."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from .contender import Contender
from .rounds import in_turn
from .table import BARE, KIT, ORJSON, PUBLISHED, Row, Table

_SECONDS = 0.8


@pytest.mark.parametrize("workers", [1, 8, 64])
@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_concurrency(contenders: dict[str, Contender], table: Table, tmp_path: Path, kind: str, workers: int) -> None:
    # Bare sqlite3 and 0.1.0 block an event loop: the kit's tasks are set against their threads.
    kinds = {BARE: "threads", KIT: kind, ORJSON: kind, PUBLISHED: "threads"}

    def measured(one: str, _: int) -> float:
        return contenders[one].measure(kinds[one], tmp_path / f"{one}.db", workers=workers, seconds=_SECONDS)

    figures = in_turn({one: partial(measured, one) for one in contenders})
    aim = "kit >= 10" if workers == 64 else ""
    table.add(Row(f"{workers} {kind}", figures, "/s", aim))
