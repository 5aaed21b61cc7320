"""Contenders, the environment of 0.1.0, and the table at the end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .contender import Contender
from .table import BARE, KIT, ORJSON, PUBLISHED, Table

_TABLE = pytest.StashKey[Table]()
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here ``bench``."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker("bench")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was measured."""
    table = config.stash.get(_TABLE, None)
    if table is None:
        return
    terminalreporter.section("bench: multiples of bare sqlite3, measured in the same rounds")
    for line in table.lines():
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def table(pytestconfig: pytest.Config) -> Table:
    return pytestconfig.stash.setdefault(_TABLE, Table())


@pytest.fixture(scope="session")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the published 0.1.0."""
    folder = tmp_path_factory.mktemp("published")
    python = folder / "bin" / "python"
    for command in (
        ["venv", "--quiet", "--allow-existing", "--python", sys.executable, folder],
        ["pip", "install", "--quiet", "--python", python, "--no-deps", "agent-handoff-kit==0.1.0"],
    ):
        subprocess.run(["uv", *map(str, command)], check=True)
    return python


@pytest.fixture(scope="session")
def contenders(old_python: Path) -> Iterator[dict[str, Contender]]:
    with ExitStack() as stack:
        yield {
            BARE: stack.enter_context(Contender("bare")),
            KIT: stack.enter_context(Contender("kit")),
            ORJSON: stack.enter_context(Contender("kit", orjson=True)),
            PUBLISHED: stack.enter_context(Contender("published", old_python)),
        }
