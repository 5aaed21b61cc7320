"""Old checkpoints and finished runs are dropped without losing what is still needed."""

from __future__ import annotations

import copy
import pickle
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import HandoffStatus, HandoffVerificationError, Relay, make_handoff_envelope
from agent_handoff_kit.errors import RunAlreadyCompleted, StoreDamaged


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


@pytest.fixture
def relay(path: Path) -> Iterator[Relay]:
    with Relay(path) as one:
        yield one


def hand_off(relay: Relay, messages: list[Any], count: int, size: int = 10) -> None:
    for _ in range(count):
        messages.append(f"{len(messages)} " + "x" * size)
        relay.handoff("r", "a", "b", make_handoff_envelope({}, from_agent="a", to_agent="b", messages=messages))


@pytest.mark.parametrize("size", [10, 3000])
def test_the_newest_checkpoints_stay_with_their_whole_history(relay: Relay, size: int) -> None:
    messages: list[Any] = []
    hand_off(relay, messages, 10, size)
    assert relay.prune("r", keep=3) == 7
    assert [one.seq for one in relay.history("r")] == [8, 9, 10]
    assert [one.context["messages"] for one in relay.history("r")] == [messages[:8], messages[:9], messages]
    hand_off(relay, messages, 2, size)
    relay.handoff("r", "a", "b", {}, new_messages=["last"])
    found = relay.recover("r")
    assert found is not None and found.context["messages"] == [*messages, "last"]
    assert relay.prune("r") == 5
    assert relay.recover("r") is not None


def test_the_newest_good_checkpoint_stays_whatever_is_newer(relay: Relay) -> None:
    relay.handoff("r", "a", "b", {"n": 1})
    for number in (2, 3):
        relay.checkpoint("r", "a", "b", {"n": number})
    with pytest.raises(HandoffVerificationError):
        relay.handoff("r", "a", "b", {"n": 4}, ["k"])
    assert relay.prune("r", keep=1) == 2
    found = relay.recover("r")
    assert found is not None and found.context == {"n": 1}


def test_the_end_of_the_message_log_stays_under_newer_flat_contexts(relay: Relay) -> None:
    hand_off(relay, ["m0"], 2)
    relay.handoff("r", "b", "c", {"flat": True})
    assert relay.prune("r") == 1
    relay.handoff("r", "c", "d", {}, new_messages=["more"])
    found = relay.recover("r")
    assert found is not None and len(found.context["messages"]) == 4


def test_keeping_none_is_refused(relay: Relay) -> None:
    with pytest.raises(ValueError, match="keep"):
        relay.prune("r", keep=0)


def test_tool_results_of_an_open_run_stay(relay: Relay) -> None:
    relay.handoff("r", "a", "b", {})
    relay.store.save_tool_result("r", "k", "tool", 7)
    relay.prune("r")
    assert relay.prune_completed() == 0
    assert relay.store.get_tool_result("r", "k") == 7


def test_completed_runs_give_up_their_data_and_keep_their_result(relay: Relay) -> None:
    for number in range(120):
        relay.handoff(f"r{number}", "a", "b", {})
        relay.store.save_tool_result(f"r{number}", "k", "tool", 7)
        relay.complete(f"r{number}", number)
    relay.handoff("open", "a", "b", {})
    assert relay.prune_completed(older_than=3600) == 0
    assert relay.prune_completed() == 120
    assert relay.prune_completed() == 0
    assert relay.history("r7") == []
    assert (relay.run_status("r7"), relay.result("r7")) == ("completed", 7)
    with pytest.raises(RunAlreadyCompleted):
        relay.handoff("r7", "a", "b", {})
    assert relay.recover("open") is not None


def test_the_space_comes_back(relay: Relay, path: Path) -> None:
    messages: list[Any] = []
    for _ in range(200):
        messages[:] = [f"{len(messages)} rewritten", *messages[1:], "y" * 2000]
        relay.handoff("r", "a", "b", make_handoff_envelope({}, from_agent="a", to_agent="b", messages=messages[-20:]))
    relay.compact()
    before = path.stat().st_size
    relay.prune("r")
    relay.compact()
    assert path.stat().st_size < before / 5
    assert relay.recover("r") is not None


def test_pruning_is_safe_while_others_read_and_hand_off(relay: Relay, path: Path) -> None:
    stop = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        with Relay(path) as other:
            while not stop.is_set():
                try:
                    found = other.recover("r")
                    assert found is None or found.context["messages"]
                    for one in other.history("r"):
                        assert one.context["messages"]
                except BaseException as error:
                    problems.append(error)
                    return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    messages: list[Any] = []
    for _ in range(60):
        hand_off(relay, messages, 3)
        relay.prune("r", keep=2)
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []


def test_history_decodes_at_the_first_touch_only(relay: Relay, path: Path) -> None:
    messages: list[Any] = []
    hand_off(relay, messages, 3)
    first, second, third = relay.history("r")
    assert "context" not in vars(first)
    assert first == relay.history("r")[0]
    assert pickle.loads(pickle.dumps(second)) == second
    assert copy.deepcopy(third).context["messages"] == messages
    assert (third.status, third.required_keys) == (HandoffStatus.VERIFIED, [])


def test_damaged_messages_of_a_listed_checkpoint_are_reported_at_every_touch(relay: Relay, path: Path) -> None:
    hand_off(relay, [], 1)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE checkpoint SET messages = ?", (b'"other"',))
    connection.close()
    (listed,) = relay.history("r")
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=listed.checkpoint_id):
            _ = listed.context
