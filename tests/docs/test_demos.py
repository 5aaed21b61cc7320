"""The demos do what they print."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from agent_handoff_kit import HandoffStatus, Relay

DEMOS = Path(__file__).parents[2] / "demo"


def start(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DEMOS / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_without_the_kit_triage_is_paid_twice() -> None:
    done = start("demo_without_relay.py")
    assert done.returncode == 0, done.stderr
    assert "all work is lost" in done.stdout
    assert "triage was paid 2 times" in done.stdout


def test_with_the_kit_only_the_resolver_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    done = start("demo_with_relay.py", str(path))
    assert done.returncode == 0, done.stderr
    for words in ("triage done", "crashed", "VERIFIED", "triage was paid 1 time"):
        assert words in done.stdout
    with Relay(path) as relay:
        assert relay.run_status("T-1") == "completed"
        assert relay.result("T-1") == "ticket T-1 closed with refund RF-1"
        first, second = relay.history("T-1")
        assert (first.to_agent, first.status) == ("resolver", HandoffStatus.VERIFIED)
        assert (second.to_agent, second.status) == ("closer", HandoffStatus.RECOVERED)
    again = start("demo_with_relay.py", str(path))
    assert again.returncode == 0, again.stderr
    assert "the run is completed" in again.stdout
    assert "triage done" not in again.stdout


def test_a_killed_process_finishes_when_started_again(tmp_path: Path) -> None:
    path = str(tmp_path / "billing.db")
    killed = start("demo_process_crash.py", path)
    assert killed.returncode == -signal.SIGKILL
    again = start("demo_process_crash.py", path)
    assert again.returncode == 0, again.stderr
    assert (killed.stdout + again.stdout).count("triage runs") == 1
    assert "success, nothing lost" in again.stdout
    third = start("demo_process_crash.py", path)
    assert "the run is completed" in third.stdout
    assert "runs" not in third.stdout
