"""Relay: checkpoint, verify and recover handoffs between agents, blocking and awaitable."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from agent_handoff_kit import handoffs
from agent_handoff_kit.errors import HandoffVerificationError
from agent_handoff_kit.guard import Guard, guarded
from agent_handoff_kit.models import Checkpoint
from agent_handoff_kit.runs import RunScope, claim_orphans
from agent_handoff_kit.store import CheckpointStore, Codec, open_store
from agent_handoff_kit.store.requests import Plan, perform

__all__ = ["HandoffVerificationError", "Relay"]

T = TypeVar("T")


class Relay:
    """Saves a verified snapshot at each handoff and gives it back after a crash.

    One relay serves blocking code, threads and event loops alike; each method has an awaitable twin
    whose name begins with ``a``.

    Args:
        store: a path, ``":memory:"``, ``"sqlite:///path"`` or an open ``CheckpointStore``. None is the
            file ``agent_handoff_kit.db`` in the working directory.
        strict: refuse values that have no lossless form, instead of sanitising them with a warning.
        timeout: seconds that an operation may wait for a locked file before ``StoreBusy``.
        lease_ttl: seconds that an owner may be silent before its runs pass on. A killed process's runs pass
            on at once.
        durability: ``"full"`` survives power loss; ``"os"`` survives the end of the process only.
        max_payload: the largest context (its state and the messages given in one call together) or result, in
            bytes.
        redact: called with a copy of everything that is to be stored, before anything else is done with it;
            returns what is stored. It gets contexts as dicts: an envelope with its messages, or with
            ``new_messages`` as its messages; the fields of a typed context. It gets results of runs and tools,
            and the input of pipelines, as they are.
        types: dataclasses, pydantic models, enums and subclasses of builtin types that come back as themselves,
            as do the dataclasses, models and enums that their fields are annotated with.
        allow_network_fs: accept a file on a network file system.

    The payload, timeout and durability options of a store that is handed in open are its own.

    Raises:
        StoreError: the file cannot be opened; a subclass says why.
        ValueError: an option has a value that it does not know.
    """

    def __init__(
        self,
        store: CheckpointStore | str | Path | None = None,
        *,
        strict: bool = False,
        timeout: float = 30.0,
        lease_ttl: float = 30.0,
        durability: str = "full",
        max_payload: int = 64 * 2**20,
        redact: Callable[[Any], Any] | None = None,
        types: Sequence[type] = (),
        allow_network_fs: bool = False,
    ) -> None:
        if durability not in ("full", "os"):
            raise ValueError(f"durability is {durability!r}; give 'full' or 'os'")
        if lease_ttl <= 0:
            raise ValueError(f"lease_ttl is {lease_ttl}; give seconds above 0")
        self.redact: Callable[[Any], Any] | None = redact
        self.lease_ttl: float = lease_ttl
        self.store: CheckpointStore
        if isinstance(store, CheckpointStore):
            self.store = store
            return
        self.store = open_store(
            "agent_handoff_kit.db" if store is None else store,
            timeout=timeout,
            durability=durability,
            allow_network_fs=allow_network_fs,
            codec=Codec(strict, max_payload, tuple(types)),
        )

    def checkpoint(
        self,
        run_id: str,
        from_agent: str,
        to_agent: str,
        context: Any,
        required_keys: Sequence[Any] = (),
        *,
        schema: Any = None,
        checks: Sequence[Callable[[Any], Any]] = (),
        op_id: str | None = None,
    ) -> Checkpoint:
        """Write a PENDING checkpoint.

        Args:
            run_id: names the run; 1 to 255 characters, as are the agents' names.
            from_agent: who hands over.
            to_agent: who receives.
            context: a dict (flat, or an envelope), a dataclass or a pydantic model.
            required_keys: what the receiver needs in the state.
            schema: a pydantic model, dataclass or TypedDict that the state must satisfy.
            checks: callables of the state that return None or True, or a reason.
            op_id: an id of your own, for a repeat after a lost acknowledgement; it becomes the
                checkpoint's id.

        Raises:
            TypeError: the context, keys, schema or checks are of a kind that cannot be used.
            PayloadError: a value or an id cannot be stored; names its path. Nothing is written.
            KeyConflict: ``op_id`` was used in this run for other content.
            RunAlreadyCompleted: the run is completed.
            StoreError: the store refused it.
        """
        terms = handoffs.terms_of(required_keys, schema, checks)
        return self._do(self._checkpoint(run_id, from_agent, to_agent, context, terms, op_id))

    async def acheckpoint(
        self,
        run_id: str,
        from_agent: str,
        to_agent: str,
        context: Any,
        required_keys: Sequence[Any] = (),
        *,
        schema: Any = None,
        checks: Sequence[Callable[[Any], Any]] = (),
        op_id: str | None = None,
    ) -> Checkpoint:
        """Awaitable twin of ``checkpoint``."""
        terms = handoffs.terms_of(required_keys, schema, checks)
        return await self._ado(self._checkpoint(run_id, from_agent, to_agent, context, terms, op_id))

    def verify(
        self, checkpoint: Checkpoint, *, schema: Any = None, checks: Sequence[Callable[[Any], Any]] = ()
    ) -> Checkpoint:
        """Judge the stored bytes of a checkpoint and mark it VERIFIED; a VERIFIED one stays so.

        Raises:
            HandoffVerificationError: the state lacks what the receiver needs (the checkpoint is then
                FAILED), the checkpoint is FAILED or RECOVERED already, or it names a schema or check
                that is not at hand. A lambda has no name to know it by: only the object that
                ``checkpoint`` returned brings it along.
            TypeError: the schema or a check cannot be used.
            CheckpointNotFound: the store has no such checkpoint.
            StoreDamaged: the stored bytes are not those that were written.
        """
        return self._do(handoffs.verify(self.store, checkpoint, schema, tuple(checks)))

    async def averify(
        self, checkpoint: Checkpoint, *, schema: Any = None, checks: Sequence[Callable[[Any], Any]] = ()
    ) -> Checkpoint:
        """Awaitable twin of ``verify``."""
        return await self._ado(handoffs.verify(self.store, checkpoint, schema, tuple(checks)))

    def handoff(
        self,
        run_id: str,
        from_agent: str,
        to_agent: str,
        context: Any,
        required_keys: Sequence[Any] = (),
        *,
        schema: Any = None,
        checks: Sequence[Callable[[Any], Any]] = (),
        op_id: str | None = None,
        new_messages: Sequence[Any] | None = None,
    ) -> Checkpoint:
        """Checkpoint and verify in one transaction, one fsync.

        Args:
            run_id: as in ``checkpoint``, as are the arguments up to ``op_id``.
            new_messages: only the messages that came since the run's newest handoff that did not fail; ``context``
                is then the state alone, or an envelope without messages. The checkpoint that is returned has no
                messages in its context; ``recover`` gives them all.

        Raises:
            HandoffVerificationError: the state lacks what the receiver needs; the checkpoint is FAILED.
            TypeError, PayloadError, KeyConflict, RunAlreadyCompleted, StoreError: as in ``checkpoint``.
        """
        terms = handoffs.terms_of(required_keys, schema, checks)
        return self._do(self._handoff(run_id, from_agent, to_agent, context, terms, op_id, new_messages))

    async def ahandoff(
        self,
        run_id: str,
        from_agent: str,
        to_agent: str,
        context: Any,
        required_keys: Sequence[Any] = (),
        *,
        schema: Any = None,
        checks: Sequence[Callable[[Any], Any]] = (),
        op_id: str | None = None,
        new_messages: Sequence[Any] | None = None,
    ) -> Checkpoint:
        """Awaitable twin of ``handoff``."""
        terms = handoffs.terms_of(required_keys, schema, checks)
        return await self._ado(self._handoff(run_id, from_agent, to_agent, context, terms, op_id, new_messages))

    def recover(self, run_id: str, *, to_agent: str | None = None, allow_rollback: bool = False) -> Checkpoint | None:
        """The checkpoint from which the run goes on.

        It is the newest good one (VERIFIED or RECOVERED) if that is VERIFIED. None: no good one, the newest
        good one is RECOVERED, the run is completed, or it is for another agent than ``to_agent``.

        Raises:
            StoreDamaged: its stored bytes are damaged; ``allow_rollback=True`` goes past it to an older one.
            UnreadablePayload: it holds a value of a type that is not in ``types``. Nothing goes past it.
        """
        return self._do(handoffs.recover(self.store, run_id, to_agent, allow_rollback))

    async def arecover(
        self, run_id: str, *, to_agent: str | None = None, allow_rollback: bool = False
    ) -> Checkpoint | None:
        """Awaitable twin of ``recover``."""
        return await self._ado(handoffs.recover(self.store, run_id, to_agent, allow_rollback))

    def history(self, run_id: str, *, limit: int | None = None) -> list[Checkpoint]:
        """The run's checkpoints in the order of writing; with ``limit`` the newest ones only.

        A damaged one is among them: the first touch of its ``context`` raises ``StoreDamaged``.
        """
        return self._do(self.store.read_history(run_id, limit))

    async def ahistory(self, run_id: str, *, limit: int | None = None) -> list[Checkpoint]:
        """Awaitable twin of ``history``."""
        return await self._ado(self.store.read_history(run_id, limit))

    def run_status(self, run_id: str) -> str | None:
        """``"open"`` or ``"completed"``; None for a run that is not known."""
        return self._do(handoffs.run_status(self.store, run_id))

    async def arun_status(self, run_id: str) -> str | None:
        """Awaitable twin of ``run_status``."""
        return await self._ado(handoffs.run_status(self.store, run_id))

    def complete(self, run_id: str, result: Any = None) -> None:
        """Complete the run: keep its result and mark its newest checkpoint RECOVERED, in one transaction.

        Raises:
            RunAlreadyCompleted: it is completed with another result.
            PayloadError: the result cannot be stored.
        """
        self._do(self.store.complete(run_id, result, redact=self.redact))

    async def acomplete(self, run_id: str, result: Any = None) -> None:
        """Awaitable twin of ``complete``."""
        await self._ado(self.store.complete(run_id, result, redact=self.redact))

    def result(self, run_id: str) -> Any:
        """The stored result of a completed run; None without one."""
        return self._do(self.store.run_result(run_id))

    async def aresult(self, run_id: str) -> Any:
        """Awaitable twin of ``result``."""
        return await self._ado(self.store.run_result(run_id))

    def prune(self, run_id: str, *, keep: int = 1) -> int:
        """Drop old checkpoints of a run; safe while others read it or hand off.

        The newest good checkpoint and the newest message history stay whatever ``keep`` says, and so do the
        results of tools.

        Args:
            run_id: the run.
            keep: how many of the newest checkpoints stay, at least 1.

        Returns:
            How many were dropped.

        Raises:
            ValueError: ``keep`` is less than 1.
        """
        return self._do(self.store.prune(run_id, _at_least_one(keep)))

    async def aprune(self, run_id: str, *, keep: int = 1) -> int:
        """Awaitable twin of ``prune``."""
        return await self._ado(self.store.prune(run_id, _at_least_one(keep)))

    def prune_completed(self, *, older_than: float = 0.0) -> int:
        """Drop checkpoints and tool results of completed runs; their status and result stay.

        Args:
            older_than: seconds since the run was last changed.

        Returns:
            How many runs were dropped.
        """
        return self._do(self.store.prune_finished(older_than))

    async def aprune_completed(self, *, older_than: float = 0.0) -> int:
        """Awaitable twin of ``prune_completed``."""
        return await self._ado(self.store.prune_finished(older_than))

    def compact(self) -> None:
        """Give the space of dropped data back to the disk; writers wait meanwhile.

        Raises:
            StoreBusy: the file stayed in use for the timeout.
        """
        self.store.backend.compact()

    async def acompact(self) -> None:
        """Awaitable twin of ``compact``."""
        from agent_handoff_kit.store import awaiting  # brings asyncio

        await awaiting.off_the_loop(self.compact)

    def guarded_handoff(
        self,
        run_id: str | Callable[[Any], str] | None,
        from_agent: str,
        to_agent: str,
        required_keys: Sequence[Any] = (),
        *,
        schema: Any = None,
        checks: Sequence[Callable[[Any], Any]] = (),
        completes: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator of a receiver: verified handoff first, then its body, which gets the caller's own context.

        Args:
            run_id: the run, a callable of the context that names it, or None: the run whose scope
                (``relay.run``) the call is in.
            from_agent: who hands over; the further arguments are those of ``handoff``.
            completes: complete the run with the body's result.

        The receiver is anything callable, async or not, whose first argument (or ``context=``) is the
        context. If its body fails the checkpoint stays VERIFIED and the error goes on to the caller.
        """
        terms = handoffs.terms_of(required_keys, schema, checks)
        return functools.partial(guarded, self, Guard(run_id, from_agent, to_agent, terms, completes))

    def run(self, run_id: str, *, wait: float = 0.0) -> RunScope:
        """Scope in which this process owns the run: ``with relay.run(run_id) as run``.

        Entering takes the run's lease, which a thread renews; leaving frees it. Every write to the run
        from inside carries the lease, and is refused with ``LostOwnership`` once another owner has it.

        Args:
            run_id: the run.
            wait: seconds to wait for another owner's lease to end.

        Raises:
            PayloadError: the run id cannot be stored.
            RunAlreadyCompleted: on entry, the run is completed; carries its result.
            RunInProgress: on entry, another owner works on it.
        """
        return RunScope(self.store, run_id, self.lease_ttl, wait)

    def arun(self, run_id: str, *, wait: float = 0.0) -> RunScope:
        """Awaitable twin of ``run``: ``async with relay.arun(run_id) as run``."""
        return self.run(run_id, wait=wait)

    def claim_orphans(self, limit: int = 1) -> list[RunScope]:
        """Take over open runs whose owner is gone: each a scope to enter, owned from now on.

        A run that was claimed five times without a new checkpoint becomes ``failed`` instead.
        """
        return self._do(claim_orphans(self.store, limit, self.lease_ttl))

    async def aclaim_orphans(self, limit: int = 1) -> list[RunScope]:
        """Awaitable twin of ``claim_orphans``."""
        return await self._ado(claim_orphans(self.store, limit, self.lease_ttl))

    def close(self) -> None:
        """Write what is queued and close the store; closing again does nothing."""
        self.store.close()

    async def aclose(self) -> None:
        """Awaitable twin of ``close``."""
        from agent_handoff_kit.store import awaiting  # brings asyncio

        await awaiting.off_the_loop(self.close)

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Relay:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _checkpoint(
        self, run_id: str, from_agent: str, to_agent: str, context: Any, terms: handoffs.Terms, op_id: str | None
    ) -> Plan[Checkpoint]:
        parties = handoffs.Parties(run_id, from_agent, to_agent)
        return handoffs.checkpoint(self.store, parties, context, terms, op_id, self.redact)

    def _handoff(
        self,
        run_id: str,
        from_agent: str,
        to_agent: str,
        context: Any,
        terms: handoffs.Terms,
        op_id: str | None,
        new_messages: Sequence[Any] | None,
    ) -> Plan[Checkpoint]:
        parties = handoffs.Parties(run_id, from_agent, to_agent)
        new = None if new_messages is None else list(new_messages)
        return handoffs.handoff(self.store, parties, context, terms, op_id, self.redact, new)

    def _do(self, plan: Plan[T]) -> T:
        return perform(self.store.backend, plan)

    async def _ado(self, plan: Plan[T]) -> T:
        from agent_handoff_kit.store import awaiting  # brings asyncio

        return await awaiting.perform_async(self.store.backend, plan, self.store.timeout)


def _at_least_one(keep: int) -> int:
    if keep < 1:
        raise ValueError(f"keep is {keep}; keep at least 1 checkpoint")
    return keep
