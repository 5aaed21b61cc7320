"""The contract of Relay and its store, blocking and awaitable: each sentence a test."""

from __future__ import annotations

import asyncio
import inspect
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Checkpoint, HandoffStatus, HandoffVerificationError, Relay, make_handoff_envelope
from agent_handoff_kit.errors import (
    CheckpointNotFound,
    KeyConflict,
    PayloadError,
    RunAlreadyCompleted,
    SchemaMismatch,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from agent_handoff_kit.store.steps import Script, WriteRun


class Face:
    """The blocking or the awaitable face of one relay, called alike."""

    def __init__(self, relay: Relay, awaitable: bool) -> None:
        self.relay = relay
        self._awaitable = awaitable

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not self._awaitable:
            method: Callable[..., Any] = getattr(self.relay, name)
            return method
        twin = getattr(self.relay, f"a{name}")
        return lambda *args, **kwargs: asyncio.run(_awaited(twin, *args, **kwargs))


async def _awaited(twin: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return await twin(*args, **kwargs)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@pytest.fixture(params=["blocking", "awaitable"])
def face(request: pytest.FixtureRequest, path: str) -> Iterator[Face]:
    with Relay(path, timeout=5) as relay:
        yield Face(relay, request.param == "awaitable")


def envelope(*messages: Any, **state: Any) -> dict[str, Any]:
    return make_handoff_envelope(state, from_agent="a", to_agent="b", messages=list(messages))


def edit(path: str, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_both_faces_have_the_same_signatures() -> None:
    for name in ("checkpoint", "verify", "handoff", "recover", "history", "run_status", "complete", "result", "close"):
        blocking = inspect.signature(getattr(Relay, name))
        assert inspect.signature(getattr(Relay, f"a{name}")) == blocking


def test_a_checkpoint_is_pending_and_not_recovered(face: Face) -> None:
    checkpoint = face.checkpoint("r", "a", "b", {"k": 1}, ["k"])
    assert checkpoint.status is HandoffStatus.PENDING
    assert face.recover("r") is None


def test_a_verified_checkpoint_is_recovered(face: Face) -> None:
    face.verify(face.checkpoint("r", "a", "b", {"k": 1}, ["k"]))
    found = face.recover("r")
    assert (found.context, found.required_keys, found.status) == ({"k": 1}, ["k"], HandoffStatus.VERIFIED)


def test_missing_keys_fail_the_checkpoint(face: Face) -> None:
    checkpoint = face.checkpoint("r", "a", "b", {"k": 1}, ["k", "z"])
    with pytest.raises(HandoffVerificationError, match="missing required keys: \\['z'\\]"):
        face.verify(checkpoint)
    assert checkpoint.status is HandoffStatus.FAILED
    assert [one.status for one in face.history("r")] == [HandoffStatus.FAILED]


def test_verify_judges_the_stored_bytes_not_the_live_object(face: Face) -> None:
    context = {"k": 1}
    checkpoint = face.checkpoint("r", "a", "b", context, ["z"])
    checkpoint.context["z"] = 2
    with pytest.raises(HandoffVerificationError):
        face.verify(checkpoint)


def test_verify_of_an_unknown_checkpoint_is_not_found(face: Face) -> None:
    with pytest.raises(CheckpointNotFound):
        face.verify(Checkpoint("r", "a", "b", {}, []))


def test_verify_again_does_nothing(face: Face) -> None:
    checkpoint = face.handoff("r", "a", "b", {"k": 1})
    assert face.verify(checkpoint).status is HandoffStatus.VERIFIED


def test_a_failed_checkpoint_is_not_verified_later(face: Face) -> None:
    with pytest.raises(HandoffVerificationError):
        face.handoff("r", "a", "b", {}, ["k"])
    (failed,) = face.history("r")
    with pytest.raises(HandoffVerificationError, match="FAILED"):
        face.verify(failed)


def test_a_handoff_that_fails_is_kept_as_failed(face: Face) -> None:
    with pytest.raises(HandoffVerificationError) as caught:
        face.handoff("r", "a", "b", {"k": None}, ["x"], checks=[lambda state: "k is empty"])
    assert (list(caught.value.missing), list(caught.value.reasons)) == (["x"], ["k is empty"])
    assert face.recover("r") is None
    assert face.history("r")[0].status is HandoffStatus.FAILED


def test_required_keys_are_looked_up_in_the_state_of_an_envelope(face: Face) -> None:
    face.handoff("r", "a", "b", envelope(ticket=1), ["ticket"])
    with pytest.raises(HandoffVerificationError):
        face.handoff("r", "a", "b", envelope(ticket=1), ["meta"])


def test_a_named_schema_must_be_at_hand_to_verify(face: Face) -> None:
    @dataclass
    class Ticket:
        ticket: int

    face.checkpoint("r", "a", "b", {"ticket": 1}, schema=Ticket)
    (stored,) = face.history("r")
    with pytest.raises(HandoffVerificationError, match="Ticket"):
        face.verify(stored)
    assert face.verify(stored, schema=Ticket).status is HandoffStatus.VERIFIED


def test_recover_never_goes_back_past_a_recovered_checkpoint(face: Face) -> None:
    face.handoff("r", "a", "b", {"n": 1})
    newest = face.handoff("r", "b", "c", {"n": 2})
    face.relay.store.update_status(newest.checkpoint_id, HandoffStatus.RECOVERED)
    assert face.recover("r") is None
    older = face.relay.store.last_good_checkpoint("r")
    assert older is not None and older.context == {"n": 1}


def test_recover_skips_pending_and_failed_ones(face: Face) -> None:
    face.handoff("r", "a", "b", {"n": 1})
    face.checkpoint("r", "b", "c", {"n": 2})
    with pytest.raises(HandoffVerificationError):
        face.handoff("r", "b", "c", {"n": 3}, ["k"])
    assert face.recover("r").context == {"n": 1}


def test_recover_for_another_agent_gives_none(face: Face) -> None:
    face.handoff("r", "a", "b", {})
    assert face.recover("r", to_agent="c") is None
    assert face.recover("r", to_agent="b") is not None


def test_completing_keeps_the_result_and_marks_the_checkpoint_recovered(face: Face) -> None:
    face.handoff("r", "a", "b", {})
    face.complete("r", {"paid": (1, 2)})
    assert face.run_status("r") == "completed"
    assert face.result("r") == {"paid": (1, 2)}
    assert face.history("r")[0].status is HandoffStatus.RECOVERED
    assert face.recover("r") is None


def test_a_completed_run_refuses_a_handoff_and_hands_out_its_result(face: Face) -> None:
    face.complete("r", 7)
    face.complete("r", 7)
    with pytest.raises(RunAlreadyCompleted) as caught:
        face.handoff("r", "a", "b", {})
    assert caught.value.result == 7
    with pytest.raises(RunAlreadyCompleted):
        face.complete("r", 8)


def test_an_operation_id_is_written_once(face: Face) -> None:
    first = face.handoff("r", "a", "b", {"n": 1}, op_id="op")
    again = face.handoff("r", "a", "b", {"n": 1}, op_id="op")
    assert (first.seq, again.seq, len(face.history("r"))) == (1, 1, 1)
    with pytest.raises(KeyConflict):
        face.handoff("r", "a", "b", {"n": 2}, op_id="op")
    assert face.handoff("other", "a", "b", {"n": 2}, op_id="op2").seq == 1


def test_history_is_in_the_order_of_writing_whatever_the_clock_says(
    face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, clock in ((1, 2000.0), (2, 1000.0)):
        monkeypatch.setattr("time.time", lambda clock=clock: clock)
        face.handoff("r", "a", "b", {"n": number})
    assert [one.context["n"] for one in face.history("r")] == [1, 2]
    assert [one.context["n"] for one in face.history("r", limit=1)] == [2]
    assert face.recover("r").context == {"n": 2}


def test_a_growing_history_stores_only_what_is_new(face: Face, path: str) -> None:
    messages: list[Any] = []
    for number in range(20):
        messages.append({"n": number, "text": "x" * 500})
        face.handoff("r", "a", "b", envelope(*messages))
    assert face.recover("r").context["messages"] == messages
    rows = sqlite3.connect(path)
    stored = rows.execute("SELECT sum(length(messages)), count(DISTINCT log_seq) FROM checkpoint").fetchone()
    rows.close()
    assert stored[0] < 20 * 560
    assert stored[1] == 1


@pytest.mark.parametrize("before, after", [(1, True), (1, 1.0), ("a", "b"), ({"k": 1}, {"k": True}), ([1], (1,))])
def test_lists_that_look_equal_and_are_not_start_a_new_log(face: Face, before: Any, after: Any) -> None:
    messages = [before, "same"]
    face.handoff("r", "a", "b", envelope(*messages))
    messages[0] = after
    face.handoff("r", "a", "b", envelope(*messages, "more"))
    found = face.recover("r").context["messages"]
    assert repr(found) == repr([after, "same", "more"])
    assert repr(face.history("r")[0].context["messages"]) == repr([before, "same"])


def test_a_message_edited_in_place_is_seen(face: Face) -> None:
    message = {"text": "first"}
    face.handoff("r", "a", "b", envelope(message))
    message["text"] = "edited"
    face.handoff("r", "a", "b", envelope(message))
    assert face.recover("r").context["messages"] == [{"text": "edited"}]


def test_new_messages_are_appended_to_what_is_stored(face: Face) -> None:
    face.handoff("r", "a", "b", {"s": 1}, new_messages=["m1"])
    face.handoff("r", "b", "c", {"s": 2}, ["s"], new_messages=["m2", "m3"])
    assert face.recover("r").context["messages"] == ["m1", "m2", "m3"]
    assert face.recover("r").context["state"] == {"s": 2}


def test_another_process_may_move_the_log_on(face: Face, path: str) -> None:
    face.handoff("r", "a", "b", envelope("m1"))
    with Relay(path) as other:
        other.handoff("r", "b", "c", envelope("m1", "m2"))
    face.handoff("r", "c", "d", envelope("m1", "m2", "m3"))
    face.handoff("r", "d", "e", {}, new_messages=["m4"])
    assert face.recover("r").context["messages"] == ["m1", "m2", "m3", "m4"]


def test_a_damaged_newest_row_is_reported_and_passed_only_on_request(face: Face, path: str) -> None:
    face.handoff("r", "a", "b", {"n": 1})
    newest = face.handoff("r", "b", "c", {"n": 2})
    edit(path, "UPDATE checkpoint SET state = ? WHERE seq = 2", b'{"n":3}')
    with pytest.raises(StoreDamaged, match=newest.checkpoint_id):
        face.recover("r")
    assert face.recover("r", allow_rollback=True).context == {"n": 1}


def test_a_damaged_message_log_is_reported(face: Face, path: str) -> None:
    face.handoff("r", "a", "b", envelope("m1"))
    edit(path, "UPDATE checkpoint SET messages = ?", b'"m2"')
    with pytest.raises(StoreDamaged):
        face.recover("r")


def test_a_row_of_another_run_does_not_pass(face: Face, path: str) -> None:
    face.handoff("r", "a", "b", {"n": 1})
    face.handoff("s", "a", "b", {"n": 2})
    edit(path, "UPDATE checkpoint SET state = (SELECT state FROM checkpoint WHERE run_id = 's') WHERE run_id = 'r'")
    with pytest.raises(StoreDamaged):
        face.recover("r")


@pytest.mark.parametrize("bad", ["", "r\x00x", "k\ud83dx", "r" * 256, 7])
def test_bad_ids_are_refused_before_anything_is_written(face: Face, bad: Any) -> None:
    for names in ((bad, "a", "b"), ("r", bad, "b"), ("r", "a", bad)):
        with pytest.raises(PayloadError):
            face.handoff(*names, {})
    assert face.history("r") == []


def test_a_value_that_cannot_be_stored_is_refused_with_its_path(path: str) -> None:
    with Relay(path, strict=True) as relay:
        with pytest.raises(PayloadError, match="item"):
            relay.handoff("r", "a", "b", {"item": object()})
        assert relay.history("r") == []


def test_an_application_dict_with_state_and_meta_is_flat(face: Face) -> None:
    context = {"order_id": 7, "state": {"code": "CA"}, "meta": {"v": 1}}
    face.handoff("r", "a", "b", context, ["order_id"])
    assert face.recover("r").context == context


def test_dataclasses_and_models_are_contexts_and_come_back_as_themselves(face: Face) -> None:
    @dataclass
    class Ticket:
        ticket_id: str

    face.handoff("r", "a", "b", Ticket("T-1"), ["ticket_id"])
    assert face.recover("r").state_as(Ticket) == Ticket("T-1")


def test_redact_runs_before_anything_is_stored(path: str) -> None:
    with Relay(path, redact=lambda context: {**context, "card": "[redacted]"}) as relay:
        relay.handoff("r", "a", "b", {"card": "4000-1111"})
    assert b"4000-1111" not in Path(path).read_bytes()


def test_files_are_private(path: str) -> None:
    with Relay(path) as relay:
        relay.handoff("r", "a", "b", {})
        modes = {name: stat.S_IMODE(os.stat(f"{path}{name}").st_mode) for name in ("", "-wal", "-shm", "-lock")}
    assert set(modes.values()) == {0o600}


def test_the_path_is_fixed_when_the_store_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with Relay("run.db") as relay:
        relay.handoff("r", "a", "b", {"n": 1})
        monkeypatch.chdir(tmp_path / "other")
        relay.handoff("r", "a", "b", {"n": 2})
        assert relay.recover("r").context == {"n": 2}  # type: ignore[union-attr]
    assert list((tmp_path / "other").iterdir()) == []


def test_memory_serves_all_threads_of_one_relay() -> None:
    with Relay(":memory:") as relay:
        threads = [threading.Thread(target=relay.handoff, args=(f"r{n}", "a", "b", {"n": n})) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [relay.recover(f"r{n}").context for n in range(8)] == [{"n": n} for n in range(8)]  # type: ignore[union-attr]


def test_a_file_that_is_no_database_is_damaged(path: str) -> None:
    Path(path).write_bytes(b"this is not a database, it is a letter" * 40)
    with pytest.raises(StoreDamaged, match=r"run\.db"):
        Relay(path)


def test_a_newer_file_and_a_foreign_one_are_refused(path: str) -> None:
    edit(path, "CREATE TABLE users (id INTEGER)")
    with pytest.raises(SchemaMismatch, match="users"):
        Relay(path)
    edit(path, "PRAGMA user_version = 99")
    with pytest.raises(SchemaMismatch, match="99"):
        Relay(path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="absent"):
        Relay(tmp_path / "absent" / "run.db")


def test_a_locked_file_is_busy_after_the_timeout_and_nothing_is_written(path: str) -> None:
    with Relay(path, timeout=0.3) as relay:
        relay.handoff("r", "a", "b", {"n": 1})
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match=r"run\.db"):
            relay.handoff("r", "a", "b", {"n": 2})
        holder.execute("ROLLBACK")
        holder.close()
        assert relay.handoff("r", "a", "b", {"n": 3}).seq == 2


def test_a_locked_file_does_not_stop_the_event_loop(path: str) -> None:
    async def scenario(relay: Relay) -> int:
        ticks = 0
        with pytest.raises(asyncio.TimeoutError):
            waiting = asyncio.ensure_future(asyncio.wait_for(relay.ahandoff("r", "a", "b", {"n": 2}), 0.5))
            while not waiting.done():
                await asyncio.sleep(0.02)
                ticks += 1
            await waiting
        return ticks

    with Relay(path) as relay:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        ticks = asyncio.run(scenario(relay))
        holder.execute("ROLLBACK")
        holder.close()
        assert ticks >= 5
        assert relay.history("r") == []
        assert relay.handoff("r", "a", "b", {"n": 3}).seq == 1


def test_a_closed_store_says_so_and_leaves_no_file_handle(path: str) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    relay = Relay(path)
    relay.handoff("r", "a", "b", {})
    asyncio.run(relay.ahandoff("r", "a", "b", {}))
    relay.close()
    relay.close()
    with pytest.raises(StoreError, match="closed"):
        relay.recover("r")
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("place", ["file", "memory"])
def test_an_interrupt_inside_an_operation_leaves_the_store_usable(path: str, place: str) -> None:
    def interrupted() -> Script[None]:
        yield WriteRun("r", "open", None, None, 0.0)
        raise KeyboardInterrupt

    with Relay(path if place == "file" else ":memory:") as relay:
        relay.handoff("kept", "a", "b", {})
        with pytest.raises(KeyboardInterrupt):
            relay.store.backend.write(interrupted)
        assert relay.run_status("r") is None
        assert relay.recover("kept") is not None
        assert relay.handoff("r", "a", "b", {}).seq == 1


@pytest.mark.parametrize("face_name", ["blocking", "awaitable"])
def test_a_store_that_cannot_reopen_its_lock_reports_it(path: str, face_name: str) -> None:
    with Relay(path) as relay:
        relay.store.backend.before_fork()
        relay.store.backend.after_fork_in_parent()
        Path(f"{path}-lock").unlink()
        Path(f"{path}-lock").mkdir()
        with pytest.raises(StoreUnavailable):
            Face(relay, face_name == "awaitable").handoff("r", "a", "b", {})
        Path(f"{path}-lock").rmdir()
        assert relay.handoff("r", "a", "b", {}).seq == 1


def test_no_message_is_lost_when_many_append_to_one_run_at_once(path: str) -> None:
    async def scenario(relay: Relay) -> None:
        def append(thread: int) -> None:
            for number in range(20):
                relay.handoff("r", "a", "b", {}, new_messages=[f"{thread}.{number}"])

        tasks = [relay.ahandoff("r", "a", "b", {}, new_messages=[f"task.{number}"]) for number in range(30)]
        await asyncio.gather(*tasks, *(asyncio.to_thread(append, thread) for thread in range(3)))

    with Relay(path) as relay:
        asyncio.run(scenario(relay))
        found = relay.recover("r")
        assert found is not None
        assert len(set(found.context["messages"])) == 90
        assert len(found.context["messages"]) == 90
