"""An operation id names one checkpoint of one run; a repeat tells what is stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import Checkpoint, HandoffStatus, HandoffVerificationError, Relay, make_handoff_envelope
from agent_handoff_kit.errors import AmbiguousCheckpoint, CheckpointNotFound, KeyConflict, StoreDamaged

VERIFIED, FAILED, PENDING = HandoffStatus.VERIFIED, HandoffStatus.FAILED, HandoffStatus.PENDING


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


@pytest.fixture
def relay(path: Path) -> Iterator[Relay]:
    with Relay(path) as opened:
        yield opened


def envelope(*messages: str, **state: Any) -> dict[str, Any]:
    talk = [{"text": one} for one in messages]
    return make_handoff_envelope(state, from_agent="a", to_agent="b", messages=talk)


def said(checkpoint: Checkpoint | None) -> list[str]:
    assert checkpoint is not None
    return [one["text"] for one in checkpoint.context["messages"]]


def status_of(relay: Relay, run_id: str) -> list[HandoffStatus]:
    return [one.status for one in relay.history(run_id)]


def edit(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


def test_verifying_a_checkpoint_leaves_one_of_the_same_id_in_another_run_alone(relay: Relay) -> None:
    mine = relay.checkpoint("mine", "a", "b", {"k": 1}, ["k"], op_id="op")
    relay.checkpoint("theirs", "a", "b", {"other": 1}, ["k"], op_id="op")
    relay.verify(mine)
    assert status_of(relay, "mine") == [VERIFIED]
    assert status_of(relay, "theirs") == [PENDING]


def test_a_checkpoint_is_looked_for_in_its_own_run(relay: Relay) -> None:
    relay.checkpoint("theirs", "a", "b", {"k": 1}, op_id="op")
    with pytest.raises(CheckpointNotFound):
        relay.verify(Checkpoint("mine", "a", "b", {"k": 1}, [], checkpoint_id="op"))


def test_an_id_of_several_runs_is_refused_where_no_run_is_named(relay: Relay) -> None:
    for run_id in ("one", "two"):
        relay.checkpoint(run_id, "a", "b", {"k": 1}, op_id="op")
    with pytest.raises(AmbiguousCheckpoint) as caught:
        relay.store.update_status("op", HandoffStatus.RECOVERED)
    assert caught.value.run_ids == ["one", "two"]
    assert status_of(relay, "one") == status_of(relay, "two") == [PENDING]


def test_a_repeat_for_other_agents_is_a_conflict(relay: Relay) -> None:
    relay.handoff("r", "a", "b", {"k": 1}, op_id="op")
    for sender, receiver in (("a", "c"), ("c", "b")):
        with pytest.raises(KeyConflict):
            relay.handoff("r", sender, receiver, {"k": 1}, op_id="op")


def test_a_repeated_handoff_that_was_refused_is_refused_again(relay: Relay) -> None:
    for _ in range(2):
        with pytest.raises(HandoffVerificationError):
            relay.handoff("r", "a", "b", {"k": 1}, ["missing"], op_id="op")
    assert status_of(relay, "r") == [FAILED]


def test_a_handoff_that_was_refused_does_not_pass_when_a_check_changes_its_mind(relay: Relay) -> None:
    answers = iter(["no", None])

    def check(state: Any) -> Any:
        return next(answers)

    for _ in range(2):
        with pytest.raises(HandoffVerificationError, match="no"):
            relay.handoff("r", "a", "b", {"k": 1}, checks=[check], op_id="op")
    assert relay.recover("r") is None


def test_a_handoff_verifies_the_pending_checkpoint_of_its_operation(relay: Relay) -> None:
    relay.checkpoint("r", "a", "b", {"k": 1}, ["k"], op_id="op")
    made = relay.handoff("r", "a", "b", {"k": 1}, ["k"], op_id="op")
    assert (made.status, made.seq) == (VERIFIED, 1)
    assert status_of(relay, "r") == [VERIFIED]


def test_a_repeated_checkpoint_tells_what_became_of_it(relay: Relay) -> None:
    first = relay.handoff("r", "a", "b", {"k": 1}, op_id="op")
    again = relay.checkpoint("r", "a", "b", {"k": 1}, op_id="op")
    assert (again.status, again.seq, again.created_at) == (VERIFIED, 1, first.created_at)


def test_a_repeat_of_appended_messages_is_recognised(relay: Relay) -> None:
    relay.handoff("r", "a", "b", envelope("one"))
    for text in ("two", "three"):
        relay.handoff("r", "a", "b", {"k": 1}, new_messages=[{"text": text}], op_id=text)
    again = relay.handoff("r", "a", "b", {"k": 1}, new_messages=[{"text": "two"}], op_id="two")
    assert again.seq == 2
    assert said(relay.recover("r")) == ["one", "two", "three"]
    with pytest.raises(KeyConflict):
        relay.handoff("r", "a", "b", {"k": 1}, new_messages=[{"text": "other"}], op_id="two")


def test_messages_of_a_refused_handoff_are_no_part_of_the_talk(path: Path, relay: Relay) -> None:
    relay.handoff("r", "a", "b", envelope("one"))
    for _ in range(2):
        with pytest.raises(HandoffVerificationError):
            relay.handoff("r", "a", "b", {}, ["k"], new_messages=[{"text": "two"}])
    relay.handoff("r", "a", "b", {"k": 1}, ["k"], new_messages=[{"text": "two"}])
    relay.handoff("r", "a", "b", {"k": 1}, ["k"], new_messages=[{"text": "three"}])
    assert said(relay.recover("r")) == ["one", "two", "three"]
    assert [said(one) for one in relay.history("r")][1:4] == [["one", "two"]] * 3
    with Relay(path) as another:
        another.handoff("r", "a", "b", envelope("one", "two", "three", "four"))
        assert said(another.recover("r")) == ["one", "two", "three", "four"]


def test_a_checkpoint_that_failed_later_does_not_break_the_talk_that_built_on_it(relay: Relay) -> None:
    relay.handoff("r", "a", "b", envelope("one"))
    lacking = relay.checkpoint("r", "a", "b", envelope("one", "two"), ["missing"])
    relay.checkpoint("r", "a", "b", envelope("one", "two", "three"))
    with pytest.raises(HandoffVerificationError):
        relay.verify(lacking)
    assert said(relay.history("r")[-1]) == ["one", "two", "three"]
    relay.handoff("r", "a", "b", {"k": 1}, new_messages=[{"text": "four"}])
    assert said(relay.recover("r")) == ["one", "two", "three", "four"]


def test_pruning_keeps_the_talk_of_what_stays_and_drops_that_of_refused_handoffs(relay: Relay) -> None:
    relay.handoff("r", "a", "b", envelope("one"))
    relay.handoff("r", "a", "b", {"k": 1}, new_messages=[{"text": "two"}])
    with pytest.raises(HandoffVerificationError):
        relay.handoff("r", "a", "b", {}, ["k"], new_messages=[{"text": "wrong"}])
    relay.handoff("r", "a", "b", {"k": 1}, new_messages=[{"text": "three"}])
    with pytest.raises(HandoffVerificationError):
        relay.handoff("r", "a", "b", {}, ["k"], new_messages=[{"text": "wrong"}])
    assert relay.prune("r", keep=2) == 3
    assert [said(one) for one in relay.history("r")] == [["one", "two", "three"], ["one", "two", "three", "wrong"]]
    relay.handoff("r", "a", "b", {"k": 1}, new_messages=[{"text": "four"}])
    assert relay.prune("r", keep=1) == 2
    assert said(relay.recover("r")) == ["one", "two", "three", "four"]


def test_saving_replaces_all_but_the_messages_that_others_build_on(relay: Relay) -> None:
    store = relay.store
    first = Checkpoint("r", "a", "b", envelope("one", k=1), ["k"], checkpoint_id="first")
    store.save(first)
    first.context["state"]["k"] = 2
    first.to_agent = "c"
    store.save(first)
    (stored,) = store.history("r")
    assert (stored.to_agent, stored.context["state"], said(stored)) == ("c", {"k": 2}, ["one"])
    first.context["messages"].append({"text": "two"})
    store.save(first)
    assert said(store.history("r")[0]) == ["one", "two"]
    relay.handoff("r", "b", "c", {"k": 1}, new_messages=[{"text": "three"}])
    first.context["messages"].append({"text": "too late"})
    with pytest.raises(KeyConflict):
        store.save(first)
    assert said(relay.recover("r")) == ["one", "two", "three"]


def test_a_verification_that_cannot_be_written_leaves_the_callers_checkpoint_as_it_was(relay: Relay) -> None:
    made = relay.checkpoint("r", "a", "b", {"k": 1})
    relay.close()
    with pytest.raises(Exception, match="closed"):
        relay.verify(made)
    assert made.status is PENDING


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM checkpoint WHERE seq = 2",
        "UPDATE checkpoint SET status = 'LOST' WHERE seq = 2",
        "UPDATE checkpoint SET to_agent = 'mallory' WHERE seq = 2",
        "UPDATE checkpoint SET from_agent = 'mallory' WHERE seq = 2",
    ],
)
def test_a_newest_handoff_that_was_tampered_with_is_reported_and_not_read_around(path: Path, damage: str) -> None:
    with Relay(path) as relay:
        relay.handoff("r", "a", "b", {"n": 1})
        relay.handoff("r", "b", "c", {"n": 2})
    edit(path, damage)
    with Relay(path) as relay:
        with pytest.raises(StoreDamaged):
            relay.recover("r")
        found = relay.recover("r", allow_rollback=True)
        assert found is not None
        assert found.context == {"n": 1}


def test_a_run_has_none_but_the_known_statuses(relay: Relay) -> None:
    with pytest.raises(ValueError, match="one of open, waiting, in_doubt, failed, completed"):
        relay.store.set_run_status("r", "done")
    assert relay.run_status("r") is None


@pytest.mark.parametrize("wrong", [None, 7, b"r", ["r"], {}])
def test_an_id_that_is_no_text_is_refused_by_name(relay: Relay, wrong: Any) -> None:
    for call in (relay.recover, relay.history, relay.run_status, relay.result, relay.prune):
        with pytest.raises(ValueError, match="run_id: must be text"):
            call(wrong)
