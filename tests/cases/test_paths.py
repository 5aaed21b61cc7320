"""A store is the file it was opened as, wherever the program goes afterwards."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import CheckpointStore, Relay


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    return first, second


@pytest.mark.parametrize("given", ["run.db", Path("run.db"), "./run.db", "../first/run.db", "sqlite:///run.db", None])
@pytest.mark.parametrize("awaitable", [False, True])
def test_a_relative_path_is_one_file_after_a_change_of_directory(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, given: Any, awaitable: bool
) -> None:
    first, second = folders
    with Relay(given) as relay:
        relay.handoff("r", "a", "b", {"n": 1})
        monkeypatch.chdir(second)
        if awaitable:
            asyncio.run(relay.ahandoff("r", "b", "c", {"n": 2}))
        else:
            relay.handoff("r", "b", "c", {"n": 2})
        assert [one.context["n"] for one in relay.history("r")] == [1, 2]
        location = Path(relay.store.db_path)
    assert list(second.iterdir()) == []
    assert location.is_absolute() and location.resolve().parent == first.resolve()
    with Relay(location) as again:
        assert [one.context["n"] for one in again.history("r")] == [1, 2]


def test_a_file_opened_again_after_its_handles_were_closed_is_still_the_same(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Relay("run.db") as relay:
        relay.handoff("r", "a", "b", {"n": 1})
        monkeypatch.chdir(folders[1])
        relay.store.backend.before_fork()
        relay.store.backend.after_fork_in_parent()
        assert relay.handoff("r", "a", "b", {"n": 2}).seq == 2
    assert list(folders[1].iterdir()) == []


def test_a_store_by_relative_path_gives_its_absolute_one(folders: tuple[Path, Path]) -> None:
    store = CheckpointStore("run.db")
    assert Path(store.db_path) == Path.cwd() / "run.db"
    store.close()


def test_memory_is_one_store_for_all_threads_and_tasks_of_a_relay_and_leaves_no_file(
    folders: tuple[Path, Path],
) -> None:
    async def tasks(relay: Relay) -> None:
        await asyncio.gather(*(relay.ahandoff("r", "a", "b", {"n": f"task {n}"}) for n in range(8)))

    with Relay(":memory:") as relay, Relay(":memory:") as other:
        threads = [threading.Thread(target=relay.handoff, args=("r", "a", "b", {"n": f"thread {n}"})) for n in range(8)]
        for thread in threads:
            thread.start()
        asyncio.run(tasks(relay))
        for thread in threads:
            thread.join()
        seen = {one.context["n"] for one in asyncio.run(relay.ahistory("r"))}
        assert seen == {f"{kind} {n}" for kind in ("task", "thread") for n in range(8)}
        assert other.history("r") == []
    assert list(folders[0].iterdir()) == []
