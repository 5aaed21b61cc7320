"""The limit: durable inserts with nothing but ``sqlite3`` and ``json``."""

from __future__ import annotations

import json
import sqlite3
import threading

from .serving import serve
from .subject import CHECKPOINTS_PER_RUN, Context, receipt

_BUSY_SECONDS = 60
_INSERT = "INSERT INTO kept (run_id, data) VALUES (?, ?)"


class Bare:
    """One kept connection for each thread, as most programs do it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._connection().execute("CREATE TABLE IF NOT EXISTS kept (id INTEGER PRIMARY KEY, run_id TEXT, data BLOB)")
        self._connection().execute("CREATE INDEX IF NOT EXISTS by_run ON kept (run_id)")

    def save(self, run_id: str, context: Context) -> None:
        self._insert(run_id, json.dumps(context).encode())

    async def asave(self, run_id: str, context: Context) -> None:
        self.save(run_id, context)

    def grow(self, run_id: str, history: list[Context], new: list[Context], *, whole: bool) -> None:
        self._insert(run_id, json.dumps(history if whole else new).encode())

    def fill(self, runs: int, context: Context) -> None:
        data = json.dumps(context).encode()
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        rows = ((f"r{run}", data) for run in range(runs) for _ in range(CHECKPOINTS_PER_RUN))
        connection.executemany(_INSERT, rows)
        connection.execute("COMMIT")

    def load(self, run: int) -> Context:
        newest = (run + 1) * CHECKPOINTS_PER_RUN
        (data,) = self._connection().execute("SELECT data FROM kept WHERE id = ?", (newest,)).fetchone()
        context: Context = json.loads(data)
        return context

    def first_call(self, key: str) -> None:
        self._insert(key, json.dumps(receipt(key)).encode())

    def repeated_call(self, key: str) -> str:
        (data,) = self._connection().execute("SELECT data FROM kept WHERE run_id = ?", (key,)).fetchone()
        result: str = json.loads(data)
        return result

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    def _insert(self, run_id: str, data: bytes) -> None:
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_INSERT, (run_id, data))
        connection.execute("COMMIT")

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            found.execute("PRAGMA journal_mode=WAL").fetchall()
            found.execute("PRAGMA synchronous=FULL").fetchall()
            self._local.connection = found
            self._opened.append(found)
        return found


if __name__ == "__main__":
    serve(Bare)
