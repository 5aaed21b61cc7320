"""Threads on a disk that takes 2 ms more for each sync: there it shows who shares syncs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from .contender import Contender
from .rounds import in_turn
from .table import BARE, KIT, PUBLISHED, Row, Table

_SOURCE = Path(__file__).with_name("slow_sync.c")


@pytest.fixture(scope="module")
def slow_contenders(old_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Contender]]:
    shim = tmp_path_factory.mktemp("shim") / "slow_sync.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(_SOURCE), "-ldl"], check=True)
    with ExitStack() as stack:
        yield {
            BARE: stack.enter_context(Contender("bare", preload=shim)),
            KIT: stack.enter_context(Contender("kit", preload=shim)),
            PUBLISHED: stack.enter_context(Contender("published", old_python, preload=shim)),
        }


@pytest.mark.parametrize("workers", [1, 64])
def test_threads(slow_contenders: dict[str, Contender], table: Table, tmp_path: Path, workers: int) -> None:
    def measured(one: str, _: int) -> float:
        return slow_contenders[one].measure("threads", tmp_path / f"{one}.db", workers=workers, seconds=0.8)

    figures = in_turn({one: partial(measured, one) for one in slow_contenders})
    table.add(Row(f"{workers} threads, syncs of 2 ms", figures, "/s", "kit >= 10" if workers == 64 else ""))
