"""The input that a run keeps, so that it can be started again without its caller."""

from __future__ import annotations

import functools
import time

from agent_handoff_kit.errors import StoreDamaged
from agent_handoff_kit.runs import Run
from agent_handoff_kit.serialization import digest
from agent_handoff_kit.store import CheckpointStore
from agent_handoff_kit.store.leases import keep_input
from agent_handoff_kit.store.requests import Plan, Write

_DIGEST_BYTES = 32


def keeping_input(run: Run, data: bytes, mark: bytes) -> Plan[None]:
    """Plan: keep a run's input at its first start; the same input again is accepted.

    Args:
        run: the run being run.
        data: its encoded input.
        mark: a digest of what must be equal in every call for the run.

    Raises:
        LostOwnership: the lease is no longer the run's.
        RunInputMismatch: the run was started with other input.
    """
    kept = digest(run.run_id, "", "input", data) + data
    yield Write(functools.partial(keep_input, run.run_id, kept, mark, run.fence, time.time()))


def kept_input(store: CheckpointStore, run_id: str) -> Plan[tuple[bytes, bytes] | None]:
    """Plan: the encoded input that a run keeps, and its mark; None before its first start.

    Raises:
        StoreDamaged: what is stored does not match its digest.
    """
    row = yield from store.read_run(run_id)
    if row is None or row.input is None or row.input_digest is None:
        return None
    found, data = bytes(row.input[:_DIGEST_BYTES]), bytes(row.input[_DIGEST_BYTES:])
    if found != digest(run_id, "", "input", data):
        raise StoreDamaged(store.db_path, "read", f"the input of run {run_id!r} does not match its digest")
    return data, bytes(row.input_digest)
