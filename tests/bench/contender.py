"""A process that measures one subject when it is asked to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]

# An import that is None in sys.modules fails, as if it were not installed.
_BLOCK = "import runpy, sys; sys.modules['orjson'] = None; runpy.run_module(sys.argv[1], run_name='__main__')"


class Contender:
    """Runs a module of ``workers`` on an interpreter, with or without orjson to be found.

    Args:
        module: its name.
        python: the interpreter.
        orjson: whether it may be imported.
        preload: a shared library that replaces functions of the process.
    """

    def __init__(
        self, module: str, python: Path | str = sys.executable, *, orjson: bool = False, preload: Path | None = None
    ) -> None:
        full = f"tests.bench.workers.{module}"
        arguments = ["-m", full] if orjson else ["-c", _BLOCK, full]
        environment = {**os.environ, **({} if preload is None else {"LD_PRELOAD": str(preload)})}
        self._process = subprocess.Popen(
            [str(python), *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, measure: str, path: Path, **arguments: Any) -> None:
        """Ask for a measure on a file."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([measure, str(path), arguments]) + "\n")
        self._process.stdin.flush()

    def figure(self) -> float:
        """The answer to the question asked."""
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, "the measuring process ended; its error is above"
        return float(json.loads(answer))

    def measure(self, measure: str, path: Path, **arguments: Any) -> float:
        """Ask, and wait for the answer."""
        self.begin(measure, path, **arguments)
        return self.figure()

    def __enter__(self) -> Contender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
