"""CheckpointStore: checkpoints, run status and tool results on one SQLite file."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agent_handoff_kit._shapes import as_it_is
from agent_handoff_kit.errors import PayloadError, StoreDamaged
from agent_handoff_kit.models import Checkpoint, HandoffStatus, is_handoff_envelope
from agent_handoff_kit.serialization import check_searched, check_text, digest, storable_text
from agent_handoff_kit.store import scripts
from agent_handoff_kit.store.call_scripts import CallKey, find_calls, settle_call
from agent_handoff_kit.store.connections import MEMORY
from agent_handoff_kit.store.fences import fences_on
from agent_handoff_kit.store.logs import LogHeads
from agent_handoff_kit.store.payloads import Codec, draft, restore, restore_whole
from agent_handoff_kit.store.pruning import prune_finished, prune_run
from agent_handoff_kit.store.records import CallRow, Damaged, LogHead, Place, RunRow, StaleLog, StoredCheckpoint
from agent_handoff_kit.store.requests import Plan, Read, Write, perform
from agent_handoff_kit.store.sqlite import SQLiteBackend
from agent_handoff_kit.store.steps import PutRecord, Script

T = TypeVar("T")

RUN_STATUSES = ("open", "waiting", "in_doubt", "failed", "completed")


class CheckpointStore:
    """Keeps and finds checkpoints, run status and tool results.

    Args:
        db_path: the SQLite file, or ``":memory:"``. It is made absolute here, once.
        timeout: seconds that an operation may wait to begin.
        durability: ``"full"`` survives power loss; ``"os"`` survives the end of the process only.
        allow_network_fs: accept a file on a network file system.
        codec: how payloads are written.

    Raises:
        StoreError: the file cannot be opened; a subclass says why.
    """

    def __init__(
        self,
        db_path: str | Path = "agent_handoff_kit.db",
        *,
        timeout: float = 30.0,
        durability: str = "full",
        allow_network_fs: bool = False,
        codec: Codec | None = None,
    ) -> None:
        self.timeout: float = timeout
        self.codec: Codec = codec or Codec()
        self.backend: SQLiteBackend = SQLiteBackend(
            str(db_path), timeout=timeout, durability=durability, allow_network_fs=allow_network_fs
        )
        self.db_path: str = self.backend.location
        # Databases in memory share a name; their leases must not.
        self.identity: str = f"{self.db_path}:{id(self)}" if self.db_path == MEMORY else self.db_path
        self._heads = LogHeads()

    def save(self, checkpoint: Checkpoint) -> None:
        """Insert a checkpoint; one with the same id is replaced in its place."""
        perform(self.backend, self.saving(checkpoint, replace=True))

    def update_status(self, checkpoint_id: str, status: HandoffStatus, error: str | None = None) -> None:
        """Set a checkpoint's status and error on the caller's word; an unknown id does nothing.

        Raises:
            AmbiguousCheckpoint: several runs have a checkpoint with this id.
        """
        perform(self.backend, self.transition(None, checkpoint_id, status, tuple(HandoffStatus), error))

    def last_good_checkpoint(self, run_id: str) -> Checkpoint | None:
        """The run's newest VERIFIED checkpoint, by the order of writing."""
        check_searched("run_id", run_id)
        return self._restored(self.backend.read(functools.partial(scripts.newest_verified, run_id)))

    def history(self, run_id: str) -> list[Checkpoint]:
        """The run's checkpoints in the order of writing."""
        return perform(self.backend, self.read_history(run_id, None))

    def set_run_status(self, run_id: str, status: str) -> None:
        """Set the run's status: ``open``, ``waiting``, ``in_doubt``, ``failed`` or ``completed``.

        Raises:
            ValueError: the status is none of these.
        """
        perform(self.backend, self.setting_status(run_id, status))

    def get_run_status(self, run_id: str) -> str | None:
        """The run's status, or None if nothing of it was recorded."""
        check_searched("run_id", run_id)
        run = self.backend.read(functools.partial(scripts.read_run, run_id))
        return None if run is None else run.status

    def get_tool_result(self, run_id: str, idempotency_key: str) -> Any | None:
        """The first result recorded under this key, or None."""
        found, value = perform(self.backend, self.find_result(run_id, idempotency_key))
        return value if found else None

    def save_tool_result(self, run_id: str, idempotency_key: str, tool_name: str, result: Any) -> None:
        """Record a tool's result; the first one under a key stays."""
        perform(self.backend, self.record_result(run_id, idempotency_key, tool_name, result))

    def resolve_call(
        self, run_id: str, key: str, *, tool: str | None = None, applied: bool, result: Any = None
    ) -> None:
        """Settle a call in doubt, on the word of somebody who looked.

        Args:
            run_id: the run of the call; ``""`` for a call with ``scope="global"``.
            key: its key.
            tool: its tool; needed where several tools used the key.
            applied: whether the effect happened. If so the call is completed with ``result``; if not, the next
                call with the key runs the tool.
            result: what the tool would have returned.

        Raises:
            LookupError: there is no such call, or several tools used the key; names them.
            RunInProgress: the run is being worked on.
            ValueError: the call is completed or running.
            PayloadError: the result cannot be stored.
        """
        perform(self.backend, self._resolved(run_id, key, tool, applied, result))

    def close(self) -> None:
        """Write what is queued and close the file; closing again does nothing."""
        self.backend.close()

    def saving(
        self,
        checkpoint: Checkpoint,
        *,
        replace: bool = False,
        new_messages: list[Any] | None = None,
        state: bytes | None = None,
    ) -> Plan[Checkpoint]:
        """Plan: encode and write a checkpoint, or one whose state is encoded; gives it back as it is stored."""
        place = yield from self._written(checkpoint, replace=replace, new_messages=new_messages, state=state)
        checkpoint.seq = place.seq
        checkpoint.status, checkpoint.error = HandoffStatus(place.status), place.error
        checkpoint.created_at = place.created_at
        return checkpoint

    def find(self, run_id: str, checkpoint_id: str) -> Plan[Checkpoint]:
        """Plan: the stored checkpoint of this run with this id."""
        check_searched("run_id", run_id)
        check_searched("checkpoint_id", checkpoint_id)
        stored: StoredCheckpoint = yield Read(functools.partial(scripts.load_checkpoint, run_id, checkpoint_id))
        return restore_whole(stored, self.codec, self.db_path)

    def transition(
        self,
        run_id: str | None,
        checkpoint_id: str,
        status: HandoffStatus,
        expected: tuple[HandoffStatus, ...],
        error: str | None = None,
    ) -> Plan[str | None]:
        """Plan: change a checkpoint's status if it is an expected one; gives the status it had.

        Without a run it is that of the one run that has a checkpoint with this id.
        """
        check_searched("checkpoint_id", checkpoint_id)
        error = None if error is None else storable_text(error)
        names = tuple(one.value for one in expected)
        before: str | None = yield Write(
            self.fenced(scripts.transition, run_id, checkpoint_id, HandoffStatus(status).value, names, error)
        )
        return before

    def resume_point(self, run_id: str, *, allow_rollback: bool) -> Plan[Checkpoint | None]:
        """Plan: the checkpoint from which the run goes on, or None when nothing is pending."""
        check_searched("run_id", run_id)
        below = sys.maxsize - 1 if allow_rollback else sys.maxsize
        while True:
            stored: StoredCheckpoint | None = yield from self._undamaged(scripts.resume_point, run_id, below=below)
            if stored is None:
                return None
            try:
                return restore_whole(stored, self.codec, self.db_path)
            except StoreDamaged:
                if not allow_rollback:
                    raise
            below = stored.seq

    def newest_good(self, run_id: str) -> Plan[Checkpoint | None]:
        """Plan: the run's newest VERIFIED or RECOVERED checkpoint."""
        check_searched("run_id", run_id)
        return self._restored((yield from self._undamaged(scripts.newest_good, run_id)))

    def _undamaged(self, script: Callable[..., Script[T]], *arguments: Any, **options: Any) -> Plan[T]:
        try:
            found: T = yield Read(functools.partial(script, *arguments, **options))
        except Damaged as damage:
            raise StoreDamaged(self.db_path, "read", str(damage)) from None
        return found

    def setting_status(self, run_id: str, status: str) -> Plan[None]:
        """Plan: set the run's status."""
        if status not in RUN_STATUSES:
            raise ValueError(f"a run's status is one of {', '.join(RUN_STATUSES)}, not {status!r}")
        yield from self._writable(run_id)
        yield Write(self.fenced(scripts.set_run_status, run_id, status))

    def read_history(self, run_id: str, limit: int | None) -> Plan[list[Checkpoint]]:
        """Plan: the newest ``limit`` checkpoints of the run, oldest first."""
        check_searched("run_id", run_id)
        rows: list[StoredCheckpoint] = yield Read(functools.partial(scripts.history, run_id, limit))
        return [restore(row, self.codec, self.db_path) for row in rows]

    def prune(self, run_id: str, keep: int) -> Plan[int]:
        """Plan: drop all but the newest checkpoints of a run; how many."""
        check_searched("run_id", run_id)
        dropped: int = yield Write(functools.partial(prune_run, run_id, keep))
        return dropped

    def prune_finished(self, older_than: float) -> Plan[int]:
        """Plan: drop the data of completed runs; how many runs."""
        before, total = time.time() - older_than, 0
        while True:
            dropped: int = yield Write(functools.partial(prune_finished, before))
            if not dropped:
                return total
            total += dropped

    def read_run(self, run_id: str) -> Plan[RunRow | None]:
        """Plan: the run's row."""
        check_searched("run_id", run_id)
        row: RunRow | None = yield Read(functools.partial(scripts.read_run, run_id))
        return row

    def complete(
        self,
        run_id: str,
        result: Any,
        rebuild: Callable[[Any], Any] = as_it_is,
        redact: Callable[[Any], Any] | None = None,
        records: Sequence[PutRecord] = (),
    ) -> Plan[None]:
        """Plan: complete the run, keep its result and journal records, mark its newest checkpoint RECOVERED."""
        yield from self._writable(run_id)
        data = self.codec.encode_result(result, rebuild, redact)
        mark = digest(run_id, "", "result", data)
        yield Write(self.fenced(scripts.complete_run, run_id, data, mark, records))

    def run_result(self, run_id: str) -> Plan[Any]:
        """Plan: the stored result of a completed run, None without one."""
        row = yield from self.read_run(run_id)
        if row is None or row.result is None:
            return None
        if digest(run_id, "", "result", row.result) != row.result_digest:
            raise StoreDamaged(self.db_path, "read", f"result of run {run_id!r} does not match its digest")
        return self.codec.decode(row.result, f"result of run {run_id!r}")

    def find_result(self, run_id: str, key: str) -> Plan[tuple[bool, Any]]:
        """Plan: whether a key has a recorded result, and the first one."""
        check_searched("run_id", run_id)
        check_searched("key", key)
        rows: list[CallRow] = yield Read(functools.partial(find_calls, run_id, key, None))
        done = [row for row in rows if row.status == "completed"]
        return (True, self.call_result(run_id, key, done[0])) if done else (False, None)

    def call_result(self, run_id: str, key: str, row: CallRow) -> Any:
        """The result in a completed call's row.

        Raises:
            StoreDamaged: its bytes are not those that were written.
        """
        data = row.result or b""
        if digest(run_id, key, "call", data) != row.digest:
            raise StoreDamaged(self.db_path, "read", f"result of call {key!r} of run {run_id!r} does not match")
        return self.codec.decode(data, f"result of call {key!r} of run {run_id!r}")

    def record_result(self, run_id: str, key: str, tool: str, result: Any) -> Plan[None]:
        """Plan: record a call's result."""
        for name, value in (("run_id", run_id), ("key", key), ("tool", tool)):
            check_text(name, value)
        data = self.codec.encode(result, "result")
        mark = digest(run_id, key, "call", data)
        yield Write(functools.partial(scripts.record_call, run_id, key, tool, data, mark, now=time.time()))

    def _writable(self, run_id: str) -> Plan[None]:
        """Plan: let pass the id of a run that is there, or that a new run may have."""
        try:
            check_text("run_id", run_id)
        except PayloadError:
            if (yield from self.read_run(run_id)) is None:
                raise

    def _resolved(self, run_id: str, key: str, tool: str | None, applied: bool, result: Any) -> Plan[None]:
        check_searched("key", key)
        rows: list[CallRow] = yield Read(functools.partial(find_calls, run_id, key, tool))
        if len(rows) != 1:
            tools = [row.tool for row in rows]
            raise LookupError(f"run {run_id!r} has {len(rows)} calls {key!r} of tools {tools}; name one with tool=")
        data = self.codec.encode(result, "result") if applied else None
        mark = None if data is None else digest(run_id, key, "call", data)
        call = CallKey(run_id, key, rows[0].tool)
        before = yield Write(self.fenced(settle_call, call, "completed" if applied else "free", data, mark))
        if before in ("completed", "running"):
            raise ValueError(f"call {key!r} of {call.tool!r} in run {run_id!r} is {before}; it is not in doubt")

    def _written(
        self, checkpoint: Checkpoint, *, replace: bool, new_messages: list[Any] | None, state: bytes | None
    ) -> Plan[Place]:
        run_id = checkpoint.run_id
        has_log = new_messages is not None or is_handoff_envelope(checkpoint.context)
        head, snapshot = (None, None) if replace else self._heads.get(run_id)
        while True:
            if head is None and not replace and has_log:
                check_text("run_id", run_id)
                head = yield Read(functools.partial(scripts.newest_log, run_id))
            prepared, log = draft(checkpoint, self.codec, head, snapshot, new_messages, state)
            script = scripts.replace_checkpoint if replace else scripts.add_checkpoint
            try:
                place: Place = yield Write(self.fenced(script, prepared))
            except StaleLog:
                self._heads.forget(run_id)
                head = snapshot = None
                continue
            if place.log_seq is not None and not replace and place.status != scripts.FAILED:
                self._heads.put(run_id, LogHead(place.log_seq, log.length, log.digest), log.snapshot)
            return place

    def fenced(self, script: Callable[..., Script[T]], *arguments: Any) -> Callable[[], Script[T]]:
        """The script under the leases that the calling code holds."""
        return functools.partial(script, *arguments, fences=fences_on(self.identity), now=time.time())

    def _restored(self, stored: StoredCheckpoint | None) -> Checkpoint | None:
        return None if stored is None else restore_whole(stored, self.codec, self.db_path)
