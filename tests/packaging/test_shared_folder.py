"""Two distributions fill one package folder, however each of them was installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "packages" / "agent-handoff-kit-core"
ADAPTER = ROOT / "packages" / "agent-handoff-kit-openai"
FIND_BOTH = """
import importlib.util
import agent_handoff_kit
agent_handoff_kit.Relay(":memory:").close()
print(agent_handoff_kit.__file__)
print(importlib.util.find_spec("agent_handoff_kit.openai_adapter").origin)
"""
FIND_ADAPTER = """
import importlib.util
print(importlib.util.find_spec("agent_handoff_kit.openai_adapter").origin)
"""
SHARED_PATHS = """
import importlib.metadata as m
core, adapter = (set(map(str, m.files(f'agent-handoff-kit-{name}'))) for name in ('core', 'openai'))
print(sorted(path for path in core & adapter if path.startswith('agent_handoff_kit')))
"""


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def uv() -> str:
    found = shutil.which("uv")
    assert found is not None, "install uv: the packaging tests build and install with it"
    return found


@pytest.fixture
def python(tmp_path: Path, uv: str) -> Path:
    run(uv, "venv", "--python", sys.executable, tmp_path / "venv", folder=tmp_path)
    return tmp_path / "venv" / "bin" / "python"


@pytest.mark.parametrize(
    ("core", "adapter"),
    [("wheel", "wheel"), ("wheel", "editable"), ("editable", "wheel"), ("editable", "editable")],
)
def test_both_are_found_and_each_outlives_the_other(
    tmp_path: Path, uv: str, python: Path, core: str, adapter: str
) -> None:
    install = (uv, "pip", "install", "--python", python, "--no-deps")
    for kind, package in ((core, CORE), (adapter, ADAPTER)):
        run(*install, *(["--editable"] if kind == "editable" else []), package, folder=tmp_path)
    places = run(python, "-c", FIND_BOTH, folder=tmp_path).split()
    for kind, package, place in zip((core, adapter), (CORE, ADAPTER), places, strict=True):
        assert Path(place).is_relative_to(package) == (kind == "editable")
    assert run(python, "-c", SHARED_PATHS, folder=tmp_path).strip() == "[]"
    run(uv, "pip", "uninstall", "--python", python, "agent-handoff-kit-openai", folder=tmp_path)
    run(python, "-c", "import agent_handoff_kit; agent_handoff_kit.Relay(':memory:').close()", folder=tmp_path)
    run(*install, ADAPTER, folder=tmp_path)
    run(uv, "pip", "uninstall", "--python", python, "agent-handoff-kit-core", folder=tmp_path)
    assert run(python, "-c", FIND_ADAPTER, folder=tmp_path).strip().endswith("openai_adapter/__init__.py")
