"""What most tests start with: a file, a relay on it, and a ledger of effects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_handoff_kit import Relay


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    file = tmp_path / "ledger"
    file.touch()
    return file


@pytest.fixture
def relay(path: str) -> Iterator[Relay]:
    with Relay(path) as one:
        yield one
