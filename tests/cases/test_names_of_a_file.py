"""One file is one store, by whatever name and by whichever user it is opened."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import CheckpointStore, Relay
from agent_handoff_kit.errors import RunInProgress, StoreError, StoreUnavailable


@pytest.mark.parametrize("target", ["real/run.db", "link/run.db"])
def test_a_link_and_its_target_are_one_store(tmp_path: Path, target: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "run.db").symlink_to(target)
    with Relay(tmp_path / "run.db") as by_link, Relay(tmp_path / "real" / "run.db") as by_name:
        assert by_link.store.db_path == by_name.store.db_path == os.path.realpath(tmp_path / "real" / "run.db")
        with by_link.run("r"):
            by_link.handoff("r", "a", "b", {"n": 1})
            # The same lease covers the same file under its other name.
            by_name.handoff("r", "b", "c", {"n": 2})
        assert [one.context["n"] for one in by_link.history("r")] == [1, 2]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "real", "run.db"]


def test_the_owner_of_a_run_is_seen_to_live_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "run.db", tmp_path / "link.db"
    link.symlink_to(path)
    code = "import sys\nfrom agent_handoff_kit import Relay\nRelay(sys.argv[1]).run('r').__enter__()"
    with Relay(path) as relay, relay.run("r"):
        done = subprocess.run([sys.executable, "-c", code, str(link)], capture_output=True, text=True, check=False)
    assert RunInProgress.__name__ in done.stderr


def test_a_file_with_two_names_of_its_own_is_refused(tmp_path: Path) -> None:
    Relay(tmp_path / "run.db").close()
    os.link(tmp_path / "run.db", tmp_path / "other.db")
    for name in ("run.db", "other.db"):
        with pytest.raises(StoreUnavailable, match="hard links"):
            Relay(tmp_path / name)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "empty"),
        ("sqlite:///", "empty"),
        ("run\0.db", "NUL"),
        (".", "directory"),
        ("pipe", "regular"),
        ("missing/run.db", "unable to open"),
        ("loop", "unable to open"),
        ("x" * 5000, "unable to open"),
    ],
)
def test_a_path_that_can_be_no_database_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for opening in (Relay, lambda path: CheckpointStore(path.removeprefix("sqlite:///"))):
        with pytest.raises(StoreError, match=reason):
            opening(given)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["loop", "pipe"]


def test_a_relative_path_in_a_folder_that_is_gone_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StoreError, match=r"run\.db"):
        Relay("run.db")


@pytest.fixture
def shared() -> Iterator[Path]:
    # Not below pytest's own folder, which is closed to other users.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o770)
        os.chown(folder, 0, 4242)
        yield Path(folder)


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_whoever_may_write_the_database_may_lock_it(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "run.db"
    Relay(path).close()
    path.chmod(mode)
    with Relay(path) as relay, relay.run("r"):
        relay.handoff("r", "a", "b", {})
        names = [one.name for one in tmp_path.iterdir()]
        assert any("-owner-" in name for name in names) and "run.db-lock" in names
        for one in tmp_path.iterdir():
            assert stat.S_IMODE(one.stat().st_mode) == mode, one


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may work as two users")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_users_of_one_group_share_a_database(shared: Path) -> None:
    path = shared / "run.db"
    Relay(path).close()
    path.chmod(0o660)
    os.chown(path, 1111, 4242)
    # The side file is given what the database was given, by whoever may do so.
    Relay(path).close()

    def work_as(user: int) -> int:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setgid(4242)
                os.setuid(user)
                os.umask(0o077)
                with Relay(path) as relay, relay.run("r"):
                    asyncio.run(relay.ahandoff("r", "a", "b", {"user": user}))
                    code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert [work_as(user) for user in (1111, 2222, 1111)] == [0, 0, 0]
    with Relay(path) as relay:
        assert [one.context["user"] for one in relay.history("r")] == [1111, 2222, 1111]
    assert (shared / "run.db-lock").stat().st_gid == 4242
