"""Every error the kit raises, in one tree.

Each class hands its fields, in ``__init__`` order, to ``Exception.__init__`` and words its sentence in ``__str__``, so
an instance survives pickling and can cross a process border with its fields intact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class HandoffKitError(Exception):
    """Root of all errors of this package."""


class LossyPayloadWarning(UserWarning):
    """A payload value was stored as something simpler and will not come back with its own type."""


class HandoffVerificationError(HandoffKitError):
    """The receiving agent would not have got what it needs.

    Args:
        run_id: the run the handoff belongs to.
        from_agent: the agent handing over.
        to_agent: the agent that was to receive.
        missing: required keys absent from the state.
        reasons: what the schema and the checks objected to.
    """

    def __init__(
        self,
        run_id: str,
        from_agent: str,
        to_agent: str,
        missing: Iterable[Any] = (),
        reasons: Iterable[str] = (),
    ) -> None:
        self.run_id = run_id
        self.from_agent = from_agent
        self.to_agent = to_agent
        self.missing: list[Any] = list(missing)
        self.reasons: list[str] = list(reasons)
        super().__init__(run_id, from_agent, to_agent, self.missing, self.reasons)

    def __str__(self) -> str:
        faults: list[str] = []
        if self.missing:
            faults.append(f"missing required keys: {self.missing}")
        faults.extend(self.reasons)
        detail = "; ".join(faults) or "verification failed"
        return (
            f"handoff {self.from_agent!r} -> {self.to_agent!r} of run {self.run_id!r} was refused: {detail}. "
            "Correct the state and hand off again."
        )


class RunAlreadyCompleted(HandoffKitError, RuntimeError):
    """The run has finished; starting it once more would repeat its effects.

    Args:
        run_id: the finished run.
        result: what it returned, when that was stored.
    """

    def __init__(self, run_id: str, result: Any = None) -> None:
        self.run_id = run_id
        self.result = result
        super().__init__(run_id, result)

    def __str__(self) -> str:
        return f"run {self.run_id!r} is already completed. Read its result, or choose a new run id."


class RunInProgress(HandoffKitError):
    """Another owner holds the run's lease.

    Args:
        run_id: the contested run.
        owner: the holder's identity.
        host: the machine it was seen on.
        pid: its process id there.
        retry_after: seconds until the lease could fall free.
    """

    def __init__(
        self,
        run_id: str,
        owner: str,
        host: str | None = None,
        pid: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.run_id = run_id
        self.owner = owner
        self.host = host
        self.pid = pid
        self.retry_after = retry_after
        super().__init__(run_id, owner, host, pid, retry_after)

    def __str__(self) -> str:
        place = f" on {self.host}" if self.host else ""
        process = f" (process {self.pid})" if self.pid is not None else ""
        when = "later" if self.retry_after is None else f"in {self.retry_after:.1f} s"
        return f"run {self.run_id!r} is held by {self.owner!r}{place}{process}. Try again {when}."


class LostOwnership(HandoffKitError):
    """The lease of the run passed to another owner; nothing of this write is kept.

    Args:
        run_id: the run.
        owner: who held it.
        token: the fencing token it was held under.
    """

    def __init__(self, run_id: str, owner: str, token: int) -> None:
        self.run_id = run_id
        self.owner = owner
        self.token = token
        super().__init__(run_id, owner, token)

    def __str__(self) -> str:
        return (
            f"run {self.run_id!r} is no longer held by {self.owner!r} under token {self.token}; nothing was written. "
            "Stop working on it: another owner goes on."
        )


class RunMismatch(HandoffKitError, ValueError):
    """Code bound to one run was called inside another run.

    Args:
        run_id: the run that the code is bound to.
        running: the run being run.
    """

    def __init__(self, run_id: str, running: str) -> None:
        self.run_id = run_id
        self.running = running
        super().__init__(run_id, running)

    def __str__(self) -> str:
        return (
            f"this is bound to run {self.run_id!r} and was called inside run {self.running!r}. "
            "Give run_id=None, so that it follows the run being run."
        )


class AlreadyDecided(HandoffKitError, ValueError):
    """A person decided on a waiting call, and another decision was stored before.

    Args:
        run_id: the run.
        call_id: the waiting call.
        decision: what was decided before: ``approved`` or ``rejected``.
    """

    def __init__(self, run_id: str, call_id: str, decision: str) -> None:
        self.run_id = run_id
        self.call_id = call_id
        self.decision = decision
        super().__init__(run_id, call_id, decision)

    def __str__(self) -> str:
        return (
            f"call {self.call_id!r} of run {self.run_id!r} is {self.decision} already, and the tool may have run. "
            "Give no other decision on it, and resume the run."
        )


class CallInProgress(HandoffKitError):
    """Another caller is running this call, and did not end in time.

    Args:
        run_id: the run of the call; empty for a global one.
        tool: the tool's name.
        key: the idempotency key.
        reason: why waiting ended.
    """

    def __init__(self, run_id: str, tool: str, key: str, reason: str) -> None:
        self.run_id = run_id
        self.tool = tool
        self.key = key
        self.reason = reason
        super().__init__(run_id, tool, key, reason)

    def __str__(self) -> str:
        return f"call {self.key!r} of {self.tool!r} in run {self.run_id!r} is in progress: {self.reason}. Try later."


class CallInDoubt(HandoffKitError):
    """A call was started and its outcome is not known, or its result was not kept.

    Args:
        run_id: the run of the call; empty for a global one.
        tool: the tool's name.
        key: the idempotency key.
        reason: what is known.
    """

    def __init__(self, run_id: str, tool: str, key: str, reason: str) -> None:
        self.run_id = run_id
        self.tool = tool
        self.key = key
        self.reason = reason
        super().__init__(run_id, tool, key, reason)

    def __str__(self) -> str:
        return (
            f"call {self.key!r} of {self.tool!r} in run {self.run_id!r} is in doubt: {self.reason}. It was not run "
            "again. Find out what happened, then settle it with store.resolve_call, or give the tool on_in_doubt=."
        )


class UnknownAgent(HandoffKitError, LookupError):
    """A run is to go on at an agent that is not at hand.

    Args:
        run_id: the run.
        name: the agent looked for.
        known: the names of the agents at hand.
    """

    def __init__(self, run_id: str, name: str, known: Iterable[str]) -> None:
        self.run_id = run_id
        self.name = name
        self.known: list[str] = list(known)
        super().__init__(run_id, name, self.known)

    def __str__(self) -> str:
        return (
            f"run {self.run_id!r} goes on at {self.name!r}, and there are only {self.known}. "
            "Give the agent that the run was handed to."
        )


class RunInputMismatch(HandoffKitError):
    """A run was started with one input and called again with another.

    Args:
        run_id: the run.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(run_id)

    def __str__(self) -> str:
        return f"run {self.run_id!r} was started with other input. Choose a run id of its own for this one."


class NothingToResume(HandoffKitError, RuntimeError):
    """A run is to go on, and nothing of it is kept.

    Args:
        run_id: the run.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(run_id)

    def __str__(self) -> str:
        return f"run {self.run_id!r} has nothing to resume from. Give its input to start it, or correct the run id."


class RunDiverged(HandoffKitError):
    """A run that is replayed went another way than the one that was recorded.

    Args:
        run_id: the run.
        key: the record that no longer fits.
        agent: the agent whose model got other input.
    """

    def __init__(self, run_id: str, key: str, agent: str) -> None:
        self.run_id = run_id
        self.key = key
        self.agent = agent
        super().__init__(run_id, key, agent)

    def __str__(self) -> str:
        return (
            f"run {self.run_id!r} is replayed, and {self.agent!r} would ask its model other than was recorded as "
            f"{self.key!r}. Use the code that it was started with, or choose: on_diverged='replay' takes "
            "the recorded response, on_diverged='call' asks the model."
        )


class AmbiguousCheckpoint(HandoffKitError, LookupError):
    """Several runs have a checkpoint of this id.

    Args:
        checkpoint_id: the id looked for.
        run_ids: the runs that have one.
    """

    def __init__(self, checkpoint_id: str, run_ids: Iterable[str]) -> None:
        self.checkpoint_id = checkpoint_id
        self.run_ids: list[str] = list(run_ids)
        super().__init__(checkpoint_id, self.run_ids)

    def __str__(self) -> str:
        return (
            f"checkpoint {self.checkpoint_id!r} is in the runs {self.run_ids}. "
            "Give an operation an id that no other run uses, or verify the checkpoint object, which knows its run."
        )


class CheckpointNotFound(HandoffKitError, LookupError):
    """The store has no checkpoint of that id.

    Args:
        checkpoint_id: the id looked for.
    """

    def __init__(self, checkpoint_id: str) -> None:
        self.checkpoint_id = checkpoint_id
        super().__init__(checkpoint_id)

    def __str__(self) -> str:
        return f"no checkpoint {self.checkpoint_id!r} in this store. Was it written through another store?"


class KeyConflict(HandoffKitError):
    """One key was used for two different contents.

    Args:
        run_id: the run in which the key is taken.
        key: the operation id or call key.
    """

    def __init__(self, run_id: str, key: str) -> None:
        self.run_id = run_id
        self.key = key
        super().__init__(run_id, key)

    def __str__(self) -> str:
        return f"key {self.key!r} of run {self.run_id!r} already stands for other content. Use a key of its own."


class PayloadError(HandoffKitError, ValueError):
    """A value cannot be stored or read back faithfully.

    Args:
        path: where in the payload the value sits, or the name of the field.
        reason: what is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}. Change that value, or store something else in its place."


class UnreadablePayload(PayloadError):
    """Stored bytes are whole, and a value in them cannot be made again here: its type is not at hand, or has changed.

    Args:
        path: the checkpoint or result that holds the value.
        reason: which type is missing, or what it does not take.
    """

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.reason}; the stored bytes are whole. "
            "Give the type in types=, as it was when the value was written."
        )


class UnsupportedSDK(HandoffKitError):
    """The installed agents SDK is outside the supported range.

    Args:
        found: the version installed.
        supported: the range this release works with.
    """

    def __init__(self, found: str, supported: str) -> None:
        self.found = found
        self.supported = supported
        super().__init__(found, supported)

    def __str__(self) -> str:
        return f"agents SDK {self.found} is not supported. Install a version in {self.supported}."


class StoreError(HandoffKitError):
    """The store could not carry out an operation.

    Args:
        location: the file, or the database address without its password.
        operation: what was attempted.
        reason: why it did not happen.
    """

    _advice = "Look at the reason, then repeat the call."

    def __init__(self, location: str, operation: str, reason: str) -> None:
        self.location = location
        self.operation = operation
        self.reason = reason
        super().__init__(location, operation, reason)

    def __str__(self) -> str:
        return f"{self.operation} on {self.location} failed: {self.reason}. {self._advice}"


class StoreBusy(StoreError):
    """Other writers kept the store occupied for the whole timeout."""

    _advice = "Nothing was written; try again or raise the timeout."


class StoreUnavailable(StoreError):
    """The store cannot be reached, or it is closed."""

    _advice = "Make it reachable, then repeat the call."


class StoreFull(StoreError):
    """No room is left where the store lives."""

    _advice = "Free some space, then repeat the call."


class StoreDamaged(StoreError):
    """Stored content does not match its digest or its structure."""

    _advice = "Restore a backup, or go back explicitly with allow_rollback=True."


class SchemaMismatch(StoreError):
    """The store was laid out by a version this one does not understand.

    Args:
        location: the file, or the database address without its password.
        found: the schema version it has.
        expected: the schema version this release writes.
    """

    def __init__(self, location: str, found: int | str, expected: int | str) -> None:
        super().__init__(location, "open", f"schema version is {found}, expected {expected}")
        self.found = found
        self.expected = expected

    def __reduce__(self) -> tuple[type[SchemaMismatch], tuple[str, int | str, int | str]]:
        return type(self), (self.location, self.found, self.expected)

    def __str__(self) -> str:
        return (
            f"{self.location} has schema version {self.found}, this release works with {self.expected}. "
            "Use a matching release of agent-handoff-kit."
        )
