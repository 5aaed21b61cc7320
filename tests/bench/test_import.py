"""What importing the core costs, against importing ``sqlite3`` and ``json`` alone."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

from .rounds import in_turn
from .table import BARE, KIT, ORJSON, PUBLISHED, Row, Table

_CODE = """
import os, sys, time
if not {orjson}:
    sys.modules["orjson"] = None
def resident():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
memory, began = resident(), time.perf_counter()
import {modules}
print([time.perf_counter() - began, resident() - memory])
"""


def measured(python: Path | str, modules: str, orjson: bool, column: int, _: int) -> float:
    code = _CODE.format(modules=modules, orjson=orjson)
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)[column])


def test_import(old_python: Path, table: Table) -> None:
    kit = "agent_handoff_kit"
    subjects: dict[str, tuple[Path | str, str, bool]] = {
        BARE: (sys.executable, "sqlite3, json", False),
        KIT: (sys.executable, kit, False),
        ORJSON: (sys.executable, kit, True),
        PUBLISHED: (old_python, kit, False),
    }
    for column, what, unit, scale in ((0, "import, time", "ms", 1e3), (1, "import, memory", "MiB", 2**-20)):
        measures = {one: partial(measured, *subject, column) for one, subject in subjects.items()}
        figures = in_turn(measures, rounds=7)
        table.add(Row(what, {one: figure * scale for one, figure in figures.items()}, unit))
