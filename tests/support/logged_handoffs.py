"""Hand off under the shim's log, marking what is acknowledged; with ``DELETE`` in rollback-journal mode."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from agent_handoff_kit import Relay, make_handoff_envelope
from agent_handoff_kit.idempotency import idempotent_tool
from agent_handoff_kit.store import connections, writer
from tests.support.disk import Disk


def rollback_journal(connection: sqlite3.Connection, path: str) -> None:
    """Take the place of entering WAL mode: the negative control."""
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()


def keep_files(database: Path) -> None:
    """Copy the files as they are, by another process: reading them here would drop SQLite's locks."""
    start = database.parent / "start"
    start.mkdir()
    for name in (database.name, f"{database.name}-wal"):
        if (database.parent / name).exists():
            subprocess.run(["cp", str(database.parent / name), str(start)], check=True)


def main() -> None:
    database, log, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    if mode == "DELETE":
        setattr(connections, "_enter_wal", rollback_journal)  # noqa: B010 - it is private on purpose
    setattr(writer, "_WAL_BYTES", 300_000)  # noqa: B010 - so that some checkpoints fall into a short run
    disk = Disk()
    history: list[Any] = []
    with Relay(database) as relay:
        relay.handoff("before", "a", "b", {})
        tool = idempotent_tool(relay, "r", key_fn=lambda number: f"call-{number}", name="pay")(lambda number: number)
        keep_files(database)
        disk.log(log)
        for number in range(20):
            history.append(f"message {number} " + "x" * 600)
            envelope = make_handoff_envelope({"n": number}, from_agent="a", to_agent="b", messages=history)
            relay.handoff("r", "a", "b", envelope)
            disk.mark(f"handoff {number}")
            tool(number)
            disk.mark(f"call {number}")


if __name__ == "__main__":
    main()
