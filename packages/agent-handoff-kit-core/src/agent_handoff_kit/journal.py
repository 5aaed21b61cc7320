"""The journal of a run: what happened since its last checkpoint, so that it need not happen again."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Any

from agent_handoff_kit.errors import StoreDamaged
from agent_handoff_kit.runs import Run
from agent_handoff_kit.serialization import digest
from agent_handoff_kit.store.journal_scripts import load_records, put_records
from agent_handoff_kit.store.requests import Plan, Read, Write
from agent_handoff_kit.store.steps import PutRecord

WHOLE_RUN = -1


class Journal:
    """Records of one run, each under a key in an epoch. The epoch is the sequence of the checkpoint before it.

    Args:
        run: the run being run; records are written under its lease.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def run_id(self) -> str:
        """The run."""
        return self._run.run_id

    async def load(self, epoch: int) -> dict[str, Any]:
        """The records of an epoch by key, in the order of writing.

        Args:
            epoch: the sequence of a checkpoint, 0 before the first one, or ``WHOLE_RUN``.

        Raises:
            StoreDamaged: a record is not what was written.
        """
        loaded: dict[str, Any] = await self._perform(self._loaded(epoch))
        return loaded

    async def put(self, epoch: int, records: Mapping[str, Any]) -> None:
        """Keep records in one durable write, each in place of one with the same key.

        Args:
            epoch: as for ``load``.
            records: values by key.

        Raises:
            LostOwnership: the run has another owner.
            PayloadError: a value cannot be stored.
        """
        await self._perform(self._put(epoch, records))

    def encoded(self, epoch: int, records: Mapping[str, Any]) -> list[PutRecord]:
        """Records as steps, for a transaction of the caller's.

        Raises:
            PayloadError: a value cannot be stored.
        """
        store, run_id = self._run.store, self._run.run_id
        rows: list[PutRecord] = []
        for key, value in records.items():
            data = store.codec.encode(value, f"journal[{key!r}]")
            rows.append(PutRecord(run_id, epoch, key, data, digest(run_id, f"{epoch}:{key}", "journal", data)))
        return rows

    async def _perform(self, plan: Plan[Any]) -> Any:
        from agent_handoff_kit.store import awaiting  # brings asyncio

        store = self._run.store
        return await awaiting.perform_async(store.backend, plan, store.timeout)

    def _loaded(self, epoch: int) -> Plan[dict[str, Any]]:
        store, run_id = self._run.store, self._run.run_id
        rows: list[tuple[str, bytes, bytes]] = yield Read(functools.partial(load_records, run_id, epoch))
        for key, data, mark in rows:
            if digest(run_id, f"{epoch}:{key}", "journal", data) != mark:
                raise StoreDamaged(store.db_path, "read", f"journal record {key!r} of run {run_id!r} does not match")
        return {key: store.codec.decode(data) for key, data, _ in rows}

    def _put(self, epoch: int, records: Mapping[str, Any]) -> Plan[None]:
        rows, run_id = self.encoded(epoch, records), self._run.run_id
        fences = {run_id: self._run.fence}
        yield Write(lambda: put_records(run_id, rows, fences=fences, now=time.time()))
