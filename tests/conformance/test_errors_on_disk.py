"""A damaged, cut or unwritable file is reported, and what was acknowledged stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreError

FULL = """
import resource, signal, sys
from agent_handoff_kit import Relay
from agent_handoff_kit.errors import StoreFull, StoreUnavailable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Relay(sys.argv[1]) as relay:
    relay.handoff("r", "a", "b", {"n": 1})
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    try:
        relay.handoff("r", "a", "b", {"n": 2, "text": "x" * 200_000})
    except (StoreFull, StoreUnavailable) as error:
        print("refused", type(error).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(relay.handoff("r", "a", "b", {"n": 3}).context["n"])
"""


def test_a_disk_that_is_full_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = str(tmp_path / "run.db")
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refused" in done.stdout
    with Relay(path) as relay:
        assert [one.context["n"] for one in relay.history("r")] == [1, 3]


def test_a_cut_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Relay(path) as relay:
        for number in range(200):
            relay.handoff("r", "a", "b", {"n": number, "text": "x" * 1000})
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreError, match=r"run\.db"), Relay(path) as relay:
        relay.history("r")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into a read-only folder")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match=str(tmp_path)):
        Relay(tmp_path / "run.db")
    tmp_path.chmod(0o700)
