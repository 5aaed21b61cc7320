"""The shim between SQLite and the disk: built once, preloaded into child processes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("disk.c")
ROOT = Path(__file__).parents[2]
WRITE, SYNC = 0, 1


def build(folder: Path) -> Path:
    """Compile the shim; the path of the library."""
    built = folder / "disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", str(built), str(SOURCE), "-ldl"], check=True)
    return built


def run(library: Path, module: str, *arguments: object) -> str:
    """Run a module of the tests with the shim preloaded; what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


class Disk:
    """The shim of this process, which must have it preloaded."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL(None)
        self._library.disk_calls.restype = ctypes.c_long

    def calls(self, which: int) -> int:
        """How many writes or syncs there were since the last ``fail``."""
        return int(self._library.disk_calls(which))

    def fail(self, which: int, at: int, error: int, *, from_then_on: bool = False) -> None:
        """Make the Nth write or sync from here fail with an errno; 0 for none."""
        self._library.disk_fail(which, ctypes.c_long(at), error, int(from_then_on))

    def log(self, path: Path) -> None:
        """Keep a log of writes, truncations, syncs and unlinks from here on."""
        self._library.disk_log(str(path).encode())

    def mark(self, text: str) -> None:
        """Put a mark into the log: what happened before it was acknowledged before what comes after."""
        self._library.disk_mark(text.encode())
