"""What a user's type checker sees of the installed packages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CONSUMERS = sorted((Path(__file__).parents[1] / "typing").glob("*.py"))


def planted(text: str) -> int:
    (line,) = (number for number, line in enumerate(text.splitlines(), 1) if "planted error" in line)
    return line


def mypy(consumer: Path) -> list[tuple[int, str]]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(consumer)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=consumer.parent, check=False)
    found = re.findall(r":(\d+): error: (.*)", done.stdout)
    assert found, done.stdout + done.stderr
    return [(int(line), message) for line, message in found]


def pyright(consumer: Path) -> list[tuple[int, str]]:
    (consumer.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", "."]
    done = subprocess.run(command, capture_output=True, text=True, cwd=consumer.parent, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, done.stdout
    return [(one["range"]["start"]["line"] + 1, one["message"]) for one in report["generalDiagnostics"]]


@pytest.mark.parametrize("checker", [mypy, pyright])
@pytest.mark.parametrize("source", CONSUMERS, ids=lambda path: path.stem)
def test_a_type_checker_finds_the_wrong_attribute_and_nothing_else(
    tmp_path: Path, checker: Callable[[Path], list[tuple[int, str]]], source: Path
) -> None:
    text = source.read_text()
    consumer = tmp_path / "consumer.py"
    consumer.write_text(text)
    found = checker(consumer)
    assert {line for line, _ in found} == {planted(text)}, found
    assert all("nonsense" in message for _, message in found), found
