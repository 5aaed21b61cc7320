"""What is built: who owns which file, what it needs, and how 0.1.0 is replaced."""

from __future__ import annotations

import ast
import csv
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"
NAMES = ("agent-handoff-kit-core", "agent-handoff-kit-openai", "agent-handoff-kit")
IMPORT_RELAY = "from agent_handoff_kit import Relay; Relay(':memory:').close()"


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def uv() -> str:
    found = shutil.which("uv")
    assert found is not None, "install uv: the packaging tests build and install with it"
    return found


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory, uv: str) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(uv, "build", "--project", ROOT, "--directory", ROOT, "--all-packages", "--out-dir", folder)
    return folder


@pytest.fixture
def environment(tmp_path: Path, uv: str) -> Path:
    run(uv, "venv", "--seed", "--python", sys.executable, tmp_path / "venv")
    return tmp_path / "venv" / "bin" / "python"


def files_of(wheels: Path, name: str) -> set[str]:
    stem = f"{name.replace('-', '_')}-0.2.0"
    (wheel,) = wheels.glob(f"{stem}-*.whl")
    record = zipfile.ZipFile(wheel).read(f"{stem}.dist-info/RECORD").decode()
    return {row[0] for row in csv.reader(record.splitlines()) if ".dist-info/" not in row[0]}


def metadata_of(wheels: Path, name: str) -> str:
    stem = f"{name.replace('-', '_')}-0.2.0"
    (wheel,) = wheels.glob(f"{stem}-*.whl")
    return zipfile.ZipFile(wheel).read(f"{stem}.dist-info/METADATA").decode()


def test_the_core_wheel_lists_its_modules(wheels: Path) -> None:
    files = files_of(wheels, "agent-handoff-kit-core")
    for name in ("__init__.py", "core.py", "models.py", "idempotency.py", "py.typed", "store/__init__.py"):
        assert f"agent_handoff_kit/{name}" in files
    known = {name for layer in LAYERS for name in layer} | {"py.typed"}
    for one in files:
        package, inside = one.split("/")[:2]
        assert package == "agent_handoff_kit"
        assert inside.removesuffix(".py") in known, f"{one} is in the core wheel but in no layer of LAYERS"


def test_the_openai_wheel_lists_only_its_subpackage(wheels: Path) -> None:
    files = files_of(wheels, "agent-handoff-kit-openai")
    assert "agent_handoff_kit/openai_adapter/py.typed" in files
    assert all(one.startswith("agent_handoff_kit/openai_adapter/") for one in files)


def test_the_umbrella_has_no_module(wheels: Path) -> None:
    assert files_of(wheels, "agent-handoff-kit") == set()


def test_no_path_is_in_two_wheels(wheels: Path) -> None:
    listed = [one for name in NAMES for one in files_of(wheels, name)]
    assert len(listed) == len(set(listed))


def test_the_core_requires_nothing(wheels: Path) -> None:
    required = re.findall(r"^Requires-Dist: (.*)$", metadata_of(wheels, NAMES[0]), re.M)
    assert required
    assert all("extra ==" in one for one in required)


def test_the_three_are_pinned_to_one_version(wheels: Path) -> None:
    pins = {
        name: set(re.findall(r"^Requires-Dist: (agent-handoff-kit-[^;\s]+)", metadata_of(wheels, name), re.M))
        for name in NAMES
    }
    assert pins == {
        "agent-handoff-kit-core": set(),
        "agent-handoff-kit-openai": {"agent-handoff-kit-core==0.2.0"},
        "agent-handoff-kit": {
            "agent-handoff-kit-core==0.2.0",
            "agent-handoff-kit-core[cli]==0.2.0",
            "agent-handoff-kit-core[postgres]==0.2.0",
            "agent-handoff-kit-openai==0.2.0",
        },
    }


def test_every_distribution_carries_the_licence() -> None:
    texts = {(PACKAGES / name / "LICENSE").read_text() for name in NAMES}
    assert texts == {(ROOT / "LICENSE").read_text()}


MAKE_TOOL = """
from agent_handoff_kit import Relay
from agent_handoff_kit.idempotency import make_idempotent_function_tool
try:
    make_idempotent_function_tool(Relay(':memory:'), "r", len, str)
except ImportError as error:
    print(error)
"""


def test_uninstalling_the_adapter_leaves_the_core(wheels: Path, environment: Path, uv: str) -> None:
    run(uv, "pip", "install", "--python", environment, "--find-links", wheels, "agent-handoff-kit[openai]==0.2.0")
    run(environment, "-c", "import agent_handoff_kit.openai_adapter")
    run(uv, "pip", "uninstall", "--python", environment, "agent-handoff-kit-openai")
    run(environment, "-c", IMPORT_RELAY)
    assert "install 'agent-handoff-kit[openai]'" in run(environment, "-c", MAKE_TOOL)


def test_uv_upgrades_from_0_1_0(wheels: Path, environment: Path, uv: str) -> None:
    run(uv, "pip", "install", "--python", environment, "--no-deps", "agent-handoff-kit==0.1.0")
    run(uv, "pip", "install", "--python", environment, "--find-links", wheels, "-U", "agent-handoff-kit==0.2.0")
    run(environment, "-c", IMPORT_RELAY)


def test_pip_upgrades_from_0_1_0_in_the_documented_order(wheels: Path, environment: Path) -> None:
    pip = (environment, "-m", "pip")
    run(*pip, "install", "--no-deps", "agent-handoff-kit==0.1.0")
    run(*pip, "uninstall", "-y", "agent-handoff-kit")
    run(*pip, "install", "--find-links", wheels, "agent-handoff-kit==0.2.0")
    run(environment, "-c", IMPORT_RELAY)


def test_pip_is_repaired_as_documented(wheels: Path, environment: Path) -> None:
    pip = (environment, "-m", "pip")
    run(*pip, "install", "--no-deps", "agent-handoff-kit==0.1.0")
    run(*pip, "install", "--find-links", wheels, "-U", "agent-handoff-kit==0.2.0")
    repair = ("install", "--force-reinstall", "--no-deps", "--find-links", wheels, "agent-handoff-kit-core==0.2.0")
    run(*pip, *repair)
    run(environment, "-c", IMPORT_RELAY)


def test_a_running_0_1_0_is_refused_on_a_migrated_file(environment: Path, tmp_path: Path, uv: str) -> None:
    run(uv, "pip", "install", "--python", environment, "--no-deps", "agent-handoff-kit==0.1.0")
    path = tmp_path / "run.db"
    old = "\n".join(
        (
            "import sqlite3, subprocess, sys",
            "from agent_handoff_kit import Relay",
            f"relay = Relay({str(path)!r})",
            "relay.verify(relay.checkpoint('r', 'a', 'b', {'n': 1}, ['n']))",
            "migrate = 'import sys; from agent_handoff_kit import Relay; Relay(sys.argv[1]).close()'",
            f"subprocess.run([{sys.executable!r}, '-c', migrate, {str(path)!r}], check=True)",
            "try:",
            "    relay.checkpoint('r', 'a', 'b', {'n': 2}, ['n'])",
            "except sqlite3.OperationalError as error:",
            "    print('refused', error)",
        )
    )
    assert "refused" in run(environment, "-c", old)


LAYERS = (
    ("errors",),
    ("_kinds", "_callables", "_annotations", "_registered", "_shapes"),
    ("serialization", "_plain", "_tagged_read", "_tagged_write", "_redaction"),
    ("models", "calls", "arguments"),
    ("verification",),
    ("store",),
    ("heartbeat", "open_calls", "companions"),
    ("runs",),
    ("handoffs", "at_most_once", "journal", "inputs"),
    ("guard",),
    ("core",),
    ("idempotency", "pipeline"),
    ("__init__",),
)


def imported_modules(file: Path) -> set[str]:
    """Every module a file names in an import, and every name it takes from one; relative imports resolved."""
    package = file.parts[len(file.parts) - file.parts[::-1].index("src") : -1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            found.update((module, *(f"{module}.{name.name}" for name in node.names)))
    return found


def test_imports_in_the_core_go_one_way() -> None:
    source = PACKAGES / NAMES[0] / "src" / "agent_handoff_kit"
    rank = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    for file in source.rglob("*.py"):
        own = file.relative_to(source).parts[0].removesuffix(".py")
        for module in imported_modules(file):
            package, _, rest = module.partition(".")
            other = rest.split(".")[0]
            if package == "agent_handoff_kit" and other in rank:
                assert rank[other] <= rank[own], f"{file.name} imports {module}"


def test_only_one_module_imports_the_sdk() -> None:
    importers = {
        file.name
        for file in PACKAGES.rglob("*.py")
        if any(module.split(".")[0] == "agents" for module in imported_modules(file))
    }
    assert importers == {"_sdk.py"}


def test_the_adapter_uses_public_names_of_the_core() -> None:
    adapter = PACKAGES / NAMES[1] / "src" / "agent_handoff_kit" / "openai_adapter"
    for file in adapter.rglob("*.py"):
        for module in imported_modules(file):
            if module.startswith("agent_handoff_kit.") and not module.startswith("agent_handoff_kit.openai_adapter"):
                assert "._" not in module


def test_no_file_is_too_long() -> None:
    for file in PACKAGES.rglob("*.py"):
        assert len(file.read_text().splitlines()) <= 500, file.name


def test_mypy_finds_a_wrong_attribute(tmp_path: Path) -> None:
    text = (ROOT / "tests" / "typing" / "consumer.py").read_text()
    (planted,) = (number for number, line in enumerate(text.splitlines(), 1) if "planted error" in line)
    consumer = tmp_path / "consumer.py"
    consumer.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(consumer)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, done.stdout + done.stderr
    assert f"consumer.py:{planted}" in errors[0] and "nonsense" in errors[0]
