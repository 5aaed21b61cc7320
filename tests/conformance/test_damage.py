"""Every stored part is covered by a digest, and a verdict never overwrites another."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import HandoffStatus, HandoffVerificationError, Relay
from agent_handoff_kit.errors import StoreDamaged, UnreadablePayload


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@pytest.fixture
def relay(path: str) -> Iterator[Relay]:
    with Relay(path) as one:
        yield one


def edit(path: str, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


PARTS: dict[str, tuple[str, Callable[[Relay], Any]]] = {
    "state": ("UPDATE checkpoint SET state = x'7b7d'", lambda relay: relay.recover("r")),
    "terms": (
        """UPDATE checkpoint SET terms = CAST('{"required_keys":[]}' AS BLOB)""",
        lambda relay: relay.recover("r"),
    ),
    "messages": ("UPDATE checkpoint SET messages = x'31'", lambda relay: relay.recover("r")),
    "length of the log": ("UPDATE checkpoint SET log_len = 7", lambda relay: relay.recover("r")),
    "id": ("UPDATE checkpoint SET op_id = 'other'", lambda relay: relay.recover("r")),
    "result of the run": ("UPDATE run SET result = x'38' WHERE run_id = 'done'", lambda relay: relay.result("done")),
    "result of a tool": ("UPDATE call SET result = x'38'", lambda relay: relay.store.get_tool_result("r", "k")),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_changed_part_of_the_store_is_damage(relay: Relay, path: str, part: str) -> None:
    relay.handoff("r", "a", "b", {"n": 1}, ["n"], new_messages=["m"])
    relay.complete("done", 7)
    relay.store.save_tool_result("r", "k", "tool", 7)
    statement, look = PARTS[part]
    look(relay)
    edit(path, statement)
    with pytest.raises(StoreDamaged, match=r"run\.db"):
        look(relay)


@pytest.mark.parametrize("column", ["result", "digest"])
def test_a_result_does_not_pass_under_another_key_or_run(relay: Relay, path: str, column: str) -> None:
    for run_id, key in (("r", "k1"), ("r", "k2"), ("s", "k1")):
        relay.store.save_tool_result(run_id, key, "tool", f"{run_id} {key}")
    source = "(SELECT {0} FROM call WHERE run_id = '{1}' AND key = '{2}')"
    taken = ", ".join(f"{name} = {source.format(name, 's', 'k1')}" for name in ("result", "digest"))
    edit(path, f"UPDATE call SET {taken} WHERE run_id = 'r'")
    for key in ("k1", "k2"):
        with pytest.raises(StoreDamaged):
            relay.store.get_tool_result("r", key)


DAMAGES = [
    *(f"{column} = x'7b7d'" for column in ("state", "terms", "digest", "log_digest")),
    "op_id = 'x'",
    "log_len = 9",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_history_lists_a_damaged_checkpoint_among_the_others(relay: Relay, path: str, damage: str) -> None:
    for number in range(3):
        relay.handoff("r", "a", f"b{number}", {"n": number}, ["n"], new_messages=["m"])
    edit(path, f"UPDATE checkpoint SET {damage} WHERE seq = 2")
    listed = relay.history("r")
    assert [(one.to_agent, one.status) for one in listed] == [(f"b{n}", HandoffStatus.VERIFIED) for n in range(3)]
    assert [listed[index].context["state"] for index in (0, 2)] == [{"n": 0}, {"n": 2}]
    assert listed[1].required_keys == []
    for _ in range(2):
        with pytest.raises(StoreDamaged):
            listed[1].context  # noqa: B018 - the touch
    assert "<StoreDamaged>" in repr(listed)


class Level(Enum):
    HIGH = 3


@dataclass
class Item:
    name: str


@pytest.mark.parametrize("place", ["context", "messages", "required keys"])
def test_a_type_that_is_not_at_hand_is_no_damage_and_is_not_gone_past(path: str, place: str) -> None:
    key = Level.HIGH if place == "required keys" else "n"
    with Relay(path, types=[Item, Level]) as writer:
        writer.handoff("r", "a", "b", {"n": 1})
        value = Item("pen") if place == "context" else 1
        new = [Item("pen")] if place == "messages" else None
        newest = writer.handoff("r", "a", "b", {key: value}, [key], new_messages=new)
        name = "Level" if place == "required keys" else "Item"
    with Relay(path) as reader:
        for allow_rollback in (False, True):
            with pytest.raises(UnreadablePayload, match=f"{newest.checkpoint_id}.*{name}"):
                reader.recover("r", allow_rollback=allow_rollback)
        listed = reader.history("r")
        assert [one.status for one in listed] == [HandoffStatus.VERIFIED] * 2
        with pytest.raises(UnreadablePayload, match=name):
            listed[1].context  # noqa: B018 - the touch
    with Relay(path, types=[Item, Level]) as writer:
        found = writer.recover("r")
    assert found is not None
    assert (found.checkpoint_id, found.required_keys) == (newest.checkpoint_id, [key])


@pytest.mark.parametrize("look", [lambda r: r.result("done"), lambda r: r.store.get_tool_result("r", "k")])
def test_a_result_whose_type_is_not_at_hand_names_the_type_and_its_place(
    path: str, look: Callable[[Relay], Any]
) -> None:
    with Relay(path, types=[Item]) as writer:
        writer.complete("done", Item("pen"))
        writer.store.save_tool_result("r", "k", "tool", Item("pen"))
        assert look(writer) == Item("pen")
    with Relay(path) as reader, pytest.raises(UnreadablePayload, match=r"result of .*(done|'k').*Item"):
        look(reader)


def test_an_enum_that_lost_a_member_is_no_damage(path: str) -> None:
    make: Any = Enum
    earlier, later = make("Colour", {"RED": 1, "BLUE": 2}), make("Colour", {"RED": 1})
    with Relay(path, types=[earlier]) as writer:
        writer.handoff("r", "a", "b", {"colour": earlier["BLUE"]})
    with Relay(path, types=[later]) as reader, pytest.raises(UnreadablePayload, match="Colour"):
        reader.recover("r", allow_rollback=True)


def test_a_verdict_does_not_overwrite_one_that_fell_meanwhile(relay: Relay) -> None:
    checkpoint = relay.checkpoint("r", "a", "b", {"n": 1})

    def refused_meanwhile(state: Any) -> None:
        relay.store.update_status(checkpoint.checkpoint_id, HandoffStatus.FAILED, "refused by a person")

    with pytest.raises(HandoffVerificationError, match="FAILED"):
        relay.verify(checkpoint, checks=[refused_meanwhile])
    assert [(one.status, one.error) for one in relay.history("r")] == [(HandoffStatus.FAILED, "refused by a person")]


def test_dropped_content_is_not_left_in_the_file(relay: Relay, path: str) -> None:
    relay.handoff("r", "a", "b", {"card": "4000-1111-2222"})
    relay.handoff("r", "a", "b", {"n": 2})
    relay.prune("r")
    relay.close()
    assert b"4000-1111" not in Path(path).read_bytes()
