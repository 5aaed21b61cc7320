"""A file of 0.1.0 is taken over whatever it holds; another program's file is left as it is."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agent_handoff_kit import CheckpointStore, Relay, make_handoff_envelope
from agent_handoff_kit.errors import PayloadError, SchemaMismatch, StoreError
from agent_handoff_kit.idempotency import idempotent_tool

TABLES = {
    "checkpoints": "CREATE TABLE checkpoints (checkpoint_id TEXT PRIMARY KEY, run_id TEXT NOT NULL,"
    " from_agent TEXT NOT NULL, to_agent TEXT NOT NULL, context TEXT NOT NULL, required_keys TEXT NOT NULL,"
    " created_at REAL NOT NULL, status TEXT NOT NULL, error TEXT)",
    "run_meta": "CREATE TABLE run_meta (run_id TEXT PRIMARY KEY, status TEXT NOT NULL, updated_at REAL NOT NULL)",
    "tool_invocations": "CREATE TABLE tool_invocations (run_id TEXT NOT NULL, idempotency_key TEXT NOT NULL,"
    " tool_name TEXT NOT NULL, result_json TEXT NOT NULL, created_at REAL NOT NULL,"
    " PRIMARY KEY (run_id, idempotency_key))",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "old.db"


def old_file(path: Path, *tables: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for name in tables or TABLES:
        connection.execute(TABLES[name])
    return connection


def add(connection: sqlite3.Connection, number: int, run_id: str, context: Any, status: str = "VERIFIED") -> None:
    raw = context if isinstance(context, str) else json.dumps(context)
    row = (f"c{number}", run_id, "a", "b", raw, "[]", 1.0, status, None)
    connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def envelope(messages: list[Any], **state: Any) -> dict[str, Any]:
    return make_handoff_envelope(state, from_agent="a", to_agent="b", messages=messages)


@pytest.mark.parametrize(
    "tables", [("checkpoints",), ("run_meta",), ("tool_invocations",), ("run_meta", "checkpoints")]
)
def test_a_file_with_some_of_the_old_tables_is_taken_over(path: Path, tables: tuple[str, ...]) -> None:
    connection = old_file(path, *tables)
    if "checkpoints" in tables:
        add(connection, 1, "r", {"n": 1})
    if "run_meta" in tables:
        connection.execute("INSERT INTO run_meta VALUES ('done', 'completed', 1.0)")
    if "tool_invocations" in tables:
        connection.execute("INSERT INTO tool_invocations VALUES ('r', 'k', 't', '[1]', 1.0)")
    connection.close()
    with Relay(path) as relay:
        assert [one.context for one in relay.history("r")] == ([{"n": 1}] if "checkpoints" in tables else [])
        assert relay.run_status("done") == ("completed" if "run_meta" in tables else None)
        assert relay.store.get_tool_result("r", "k") == ([1] if "tool_invocations" in tables else None)
        relay.handoff("r", "b", "c", {"n": 2})
    check = sqlite3.connect(path)
    for name in TABLES:
        with pytest.raises(sqlite3.OperationalError, match="view"):
            check.execute(f"DELETE FROM {name}")
    check.close()


@pytest.mark.parametrize("count", [1, 3])
def test_new_messages_go_on_after_the_history_of_an_old_envelope(path: Path, count: int) -> None:
    connection = old_file(path)
    messages: list[Any] = []
    for number in range(count):
        messages += [{"role": "user", "content": f"{number} é\n"}, [number, None, 1.5]]
        add(connection, number, "r", envelope(messages, n=number))
    connection.close()
    with Relay(path) as relay:
        assert [one.context["messages"] for one in relay.history("r")] == [
            messages[: 2 * number + 2] for number in range(count)
        ]
        relay.handoff("r", "b", "c", {"n": 9}, new_messages=["new"])
        found = relay.recover("r")
        assert found is not None
        assert (found.context["messages"], found.context["state"]) == ([*messages, "new"], {"n": 9})


def test_an_old_run_whose_messages_changed_keeps_each_list(path: Path) -> None:
    connection = old_file(path)
    lists: list[list[Any]] = [["a", "b"], ["a", "b", "c"], ["x"], ["x", "y"]]
    for number, messages in enumerate(lists):
        add(connection, number, "r", envelope(messages))
    add(connection, 9, "r", {"flat": True})
    connection.close()
    with Relay(path) as relay:
        assert [one.context["messages"] for one in relay.history("r")[:4]] == lists
        relay.handoff("r", "b", "c", envelope(["x", "y", "z"]))
        relay.prune("r", keep=1)
        (left,) = [one for one in relay.history("r") if one.seq == 6]
        assert left.context["messages"] == ["x", "y", "z"]


@pytest.mark.parametrize("damaged", ["{broken", "[" * 100_000])
def test_an_old_value_that_cannot_be_read_harms_no_other(path: Path, damaged: str) -> None:
    connection = old_file(path)
    add(connection, 1, "bad", damaged)
    add(connection, 2, "good", {"n": float("inf")})
    connection.close()
    with Relay(path) as relay:
        (bad,) = relay.history("bad")
        with pytest.raises(StoreError, match="bad"):
            _ = bad.context
        assert relay.history("good")[0].context == {"n": float("inf")}


def test_an_old_value_nested_deeper_than_is_written_is_read(path: Path) -> None:
    connection = old_file(path)
    deep = '{"n": ' * 300 + "1" + "}" * 300
    add(connection, 1, "r", deep)
    connection.close()
    with Relay(path) as relay:
        assert relay.history("r")[0].context == json.loads(deep)


@pytest.mark.parametrize("run_id", ["", "r" * 300])
def test_ids_that_0_1_0_accepted_are_found_and_their_runs_can_be_finished(path: Path, run_id: str) -> None:
    key = "k" * 300
    connection = old_file(path)
    add(connection, 1, run_id, {"n": 1})
    connection.execute("INSERT INTO run_meta VALUES (?, 'open', 1.0)", (run_id,))
    connection.execute("INSERT INTO tool_invocations VALUES (?, ?, 't', '[1]', 1.0)", (run_id, key))
    connection.close()
    with Relay(path) as relay:
        found = relay.recover(run_id)
        assert found is not None and found.context == {"n": 1}
        assert len(relay.history(run_id)) == 1
        assert relay.store.last_good_checkpoint(run_id) is not None
        assert relay.store.get_tool_result(run_id, key) == [1]
        if run_id:
            tool = idempotent_tool(relay, run_id, key_fn=lambda: key, name="t")(lambda: pytest.fail("ran again"))
            assert tool() == [1]
        assert relay.prune(run_id) == 0
        with pytest.raises(PayloadError, match="run_id"):
            relay.handoff(run_id, "a", "b", {})
        relay.complete(run_id, "done")
        assert (relay.run_status(run_id), relay.result(run_id)) == ("completed", "done")


@pytest.mark.parametrize("write", ["complete", "set_run_status", "tool"])
def test_an_id_that_is_not_there_already_is_checked_before_it_is_written(path: Path, write: str) -> None:
    long = "r" * 300
    with Relay(path) as relay:
        attempts: dict[str, Any] = {
            "complete": lambda: relay.complete(long),
            "set_run_status": lambda: relay.store.set_run_status(long, "open"),
            "tool": idempotent_tool(relay, "r", key_fn=lambda: long, name="t")(lambda: pytest.fail("ran")),
        }
        with pytest.raises(PayloadError, match="300 characters"):
            attempts[write]()
        assert relay.run_status(long) is None


def test_a_copy_of_another_file_under_the_copys_name_stays_and_the_new_one_gets_a_number(path: Path) -> None:
    stale = path.with_name("old.db.0.1.0.bak")
    stale.write_bytes(b"another file's copy")
    for round_, name in enumerate(("old.db.0.1.0.bak.2", "old.db.0.1.0.bak.3")):
        connection = old_file(path)
        add(connection, round_, "r", {"n": round_})
        connection.close()
        Relay(path).close()
        copy = sqlite3.connect(path.with_name(name))
        assert copy.execute("SELECT context FROM checkpoints").fetchall() == [(json.dumps({"n": round_}),)]
        copy.close()
        for one in path.parent.glob("old.db*"):
            if ".bak" not in one.name:
                one.unlink()
    assert stale.read_bytes() == b"another file's copy"


FOREIGN = {
    "tables": ["CREATE TABLE customers (id)"],
    "a version": ["CREATE TABLE customers (id)", "PRAGMA user_version = 1"],
    "a version alone": ["PRAGMA user_version = 1"],
    "an application id": ["PRAGMA application_id = 7", "PRAGMA user_version = 1"],
    "a view": ["CREATE VIEW checkpoints AS SELECT 1"],
    "a table of the old name": ["CREATE TABLE checkpoints (thread_id, checkpoint)", "CREATE TABLE writes (id)"],
    "one old and one other": [TABLES["checkpoints"], "CREATE TABLE run_meta (id)"],
    "an old file with a table of a new name": [*TABLES.values(), "CREATE TABLE Run (id)"],
    "an old file with an index of a new name": [*TABLES.values(), "CREATE INDEX run_leased ON run_meta (status)"],
    "an old file of a program with versions": [*TABLES.values(), "PRAGMA user_version = 3"],
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_another_programs_file_is_refused_by_name_and_left_as_it_is(path: Path, kind: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in FOREIGN[kind]:
        connection.execute(statement)
    connection.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    for opening in (Relay, CheckpointStore):
        with pytest.raises(SchemaMismatch, match=r"old\.db"):
            opening(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert {one.name for one in path.parent.iterdir()} <= {"old.db", "old.db-lock"}


def test_an_old_file_beside_other_tables_and_views_keeps_them(path: Path) -> None:
    connection = old_file(path)
    add(connection, 1, "r", {"n": 1})
    connection.execute("CREATE TABLE customers AS SELECT 7 AS id")
    connection.execute("DROP TABLE run_meta")
    connection.execute("CREATE VIEW run_meta AS SELECT id FROM customers")
    connection.close()
    with Relay(path) as relay:
        assert relay.history("r")[0].context == {"n": 1}
    check = sqlite3.connect(path)
    assert check.execute("SELECT id FROM customers").fetchall() == [(7,)]
    check.close()
