"""The demos do what they print."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_failed_model_is_resumed_and_the_refund_happens_once() -> None:
    done = start("demo_openai_adapter.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the triage's model is asked") == 1
    assert "the model's connection is lost, after the handoff" in done.stdout
    assert "refunds in the ledger: 1" in done.stdout
    assert "a second run is refused" in done.stdout


def test_a_receiver_that_fails_is_run_again_from_the_snapshot() -> None:
    done = start("demo_openai_agents.py")
    assert done.returncode == 0, done.stderr
    assert "recovered from the VERIFIED checkpoint" in done.stdout
    assert "answer: done" in done.stdout


def test_a_killed_stream_goes_on_without_asking_a_model_twice(tmp_path: Path) -> None:
    killed = start("demo_streamed_crash.py", str(tmp_path))
    assert killed.returncode == -signal.SIGKILL
    again = start("demo_streamed_crash.py", str(tmp_path))
    assert again.returncode == 0, again.stderr
    both = killed.stdout + again.stdout
    assert both.count("the triage's model is asked") == 1
    assert both.count("the resolver's model is asked") == 2
    assert "refunds in the ledger: 1" in again.stdout
    third = start("demo_streamed_crash.py", str(tmp_path))
    assert third.stdout.startswith("the run is completed")


@pytest.mark.parametrize("name", ["demo_openai_adapter.py", "demo_openai_agents.py"])
def test_a_live_demo_without_a_key_says_so_in_one_line(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(DEMOS / name), "--live"]
    keyless = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=keyless, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "OPENAI_API_KEY" in done.stderr
