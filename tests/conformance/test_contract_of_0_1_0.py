"""Names, signatures and behaviour that 0.1.0 published, and the files it wrote."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Checkpoint, CheckpointStore, HandoffStatus, Relay, models
from agent_handoff_kit.errors import StoreDamaged
from agent_handoff_kit.idempotency import idempotent_tool

OLD_FILE = Path(__file__).parent.parent / "data" / "written_by_0_1_0.sqlite"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CheckpointStore]:
    one = CheckpointStore(tmp_path / "run.db")
    yield one
    one.close()


@pytest.fixture
def migrated(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    shutil.copyfile(OLD_FILE, path)
    return path


def test_save_inserts_and_replaces(store: CheckpointStore) -> None:
    checkpoint = Checkpoint("r", "a", "b", {"n": 1}, ["n"])
    store.save(checkpoint)
    checkpoint.context = {"n": 2}
    checkpoint.status = HandoffStatus.VERIFIED
    store.save(checkpoint)
    (found,) = store.history("r")
    assert (found.context, found.status, found.seq) == ({"n": 2}, HandoffStatus.VERIFIED, 1)


def test_update_status_takes_any_known_checkpoint_and_ignores_an_unknown_one(store: CheckpointStore) -> None:
    checkpoint = Checkpoint("r", "a", "b", {}, [])
    store.save(checkpoint)
    store.update_status(checkpoint.checkpoint_id, HandoffStatus.FAILED, error="no")
    store.update_status("unknown", HandoffStatus.FAILED)
    (found,) = store.history("r")
    assert (found.status, found.error) == (HandoffStatus.FAILED, "no")


def test_run_status_is_set_and_read(store: CheckpointStore) -> None:
    assert store.get_run_status("r") is None
    store.set_run_status("r", "open")
    store.set_run_status("r", "completed")
    assert store.get_run_status("r") == "completed"


def test_the_first_tool_result_stays(store: CheckpointStore) -> None:
    assert store.get_tool_result("r", "k") is None
    store.save_tool_result("r", "k", "tool", {"n": 1})
    store.save_tool_result("r", "k", "tool", {"n": 2})
    assert store.get_tool_result("r", "k") == {"n": 1}


@pytest.mark.parametrize("result", [None, False, 0, "", [], {"n": (1, 2)}])
def test_a_result_is_replayed_whatever_its_value(store: CheckpointStore, result: Any) -> None:
    calls: list[str] = []

    @idempotent_tool(store, "r", key_fn=lambda order: f"refund:{order}")
    def refund(order: str) -> Any:
        calls.append(order)
        return result

    assert [refund("O-7"), refund("O-7")] == [result, result]
    assert calls == ["O-7"]


@pytest.mark.parametrize("key", ["", None, 7])
def test_a_key_must_be_text(store: CheckpointStore, key: Any) -> None:
    with pytest.raises(TypeError):
        idempotent_tool(store, "r", key_fn=lambda: key)(lambda: 1)()


def test_to_row_and_from_row_keep_the_old_shape() -> None:
    checkpoint = Checkpoint("r", "a", "b", {"n": 1}, ["n"])
    row = checkpoint.to_row()
    assert len(row) == 9
    assert Checkpoint.from_row(row) == checkpoint
    with pytest.raises(ValueError, match="context"):
        Checkpoint.from_row((*row[:4], "{broken", *row[5:]))


def test_the_names_of_models_stay_importable() -> None:
    for name in ("is_handoff_envelope", "json_sanitize", "dumps_safe", "loads_field"):
        assert callable(getattr(models, name))


def test_an_old_file_keeps_its_checkpoints_run_states_and_tool_results(migrated: Path) -> None:
    with Relay(migrated) as relay:
        first, second = relay.history("T-1")
        assert first.context["state"] == {"ticket_id": "T-1", "note": "é"}
        assert first.context["messages"] == [{"role": "user", "content": "hi"}]
        assert (second.context, second.required_keys) == ({"ticket_id": "T-1", "refund": 500}, ["refund"])
        found = relay.recover("T-1")
        assert found is not None and found.checkpoint_id == second.checkpoint_id
        assert [one.status for one in relay.history("T-2")] == [HandoffStatus.FAILED]
        assert (relay.run_status("T-3"), relay.recover("T-3")) == ("completed", None)
        assert relay.store.get_tool_result("T-1", "refund:O-7") == {"ok": True}
        assert relay.store.get_tool_result("T-9", "k") == [1, 2]
        assert relay.handoff("T-1", "closer", "audit", {"n": 3}).seq == 3


def test_an_old_file_is_copied_before_it_is_migrated(migrated: Path) -> None:
    Relay(migrated).close()
    copy = sqlite3.connect(f"{migrated}.0.1.0.bak")
    assert copy.execute("SELECT count(*) FROM checkpoints").fetchone() == (4,)
    copy.close()


def test_a_damaged_old_row_is_reported_when_it_is_read(migrated: Path) -> None:
    connection = sqlite3.connect(migrated)
    with connection:
        connection.execute("UPDATE checkpoints SET context = '{broken' WHERE run_id = 'T-2'")
    connection.close()
    with Relay(migrated) as relay:
        (damaged,) = relay.history("T-2")
        with pytest.raises(StoreDamaged, match="T-2"):
            _ = damaged.context
        assert relay.recover("T-1") is not None


def test_a_process_of_the_old_release_is_refused_on_a_migrated_file(migrated: Path) -> None:
    Relay(migrated).close()
    connection = sqlite3.connect(migrated)
    with pytest.raises(sqlite3.OperationalError, match="view"):
        connection.execute("INSERT INTO run_meta (run_id, status, updated_at) VALUES ('r', 'open', 0)")
    with pytest.raises(sqlite3.OperationalError, match="view"):
        connection.execute("CREATE INDEX IF NOT EXISTS idx_checkpoints_run_id ON checkpoints (run_id, created_at)")
    connection.close()
