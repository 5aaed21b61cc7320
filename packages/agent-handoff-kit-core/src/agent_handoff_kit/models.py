"""Checkpoints, the handoff envelope, and the way back to a user's own types."""

from __future__ import annotations

import copy
import dataclasses
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agent_handoff_kit._kinds import is_dict, is_model
from agent_handoff_kit._registered import data_fields, model_fields
from agent_handoff_kit._shapes import as_type
from agent_handoff_kit.errors import StoreDamaged, UnreadablePayload
from agent_handoff_kit.serialization import dumps_safe, json_sanitize, loads_field

__all__ = [
    "Checkpoint",
    "HandoffStatus",
    "checkpoint_messages",
    "checkpoint_state",
    "context_to_mapping",
    "dumps_safe",
    "is_handoff_envelope",
    "json_sanitize",
    "loads_field",
    "make_handoff_envelope",
]

T = TypeVar("T")
_ENVELOPE_KEYS = {"state", "messages", "meta"}


class HandoffStatus(str, Enum):
    """The four stages of a checkpoint.

    A PENDING one is stored but not judged; a VERIFIED one has passed and can be returned to; a FAILED one was refused;
    a RECOVERED one has served its purpose in a run that went on past it.
    """

    PENDING = "PENDING"
    VERIFIED = "VERIFIED"
    FAILED = "FAILED"
    RECOVERED = "RECOVERED"


@dataclass
class Checkpoint:
    """What one agent handed to the next, and how far that handoff got.

    Args:
        run_id: the run.
        from_agent: the agent handing over.
        to_agent: the agent receiving.
        context: a handoff envelope or a flat dict.
        required_keys: keys the state must have.
        checkpoint_id: made up when not given.
        created_at: seconds since the epoch; informative, never used for order.
        status: the stage it is at.
        error: why it failed, if it did.
        seq: its place in the run once stored.
        schema_name: name of the schema it has to satisfy.
        check_names: names of the checks it has to pass.
        schema: the schema itself, in the process that made the checkpoint; a pickle takes it along if it can.
        checks: the checks themselves, in the process that made the checkpoint; a pickle takes along those it can.
    """

    run_id: str
    from_agent: str
    to_agent: str
    context: dict[str, Any]
    required_keys: list[str]
    checkpoint_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created_at: float = field(default_factory=time.time)
    status: HandoffStatus = HandoffStatus.PENDING
    error: str | None = None
    seq: int | None = None
    schema_name: str | None = field(default=None, kw_only=True)
    check_names: tuple[str, ...] = field(default=(), kw_only=True)
    schema: Any = field(default=None, kw_only=True, repr=False, compare=False)
    checks: tuple[Any, ...] = field(default=(), kw_only=True, repr=False, compare=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            load = self.__dict__.get("_load_context") if name == "context" else None
            if load is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.context = load()
            del self.__dict__["_load_context"]
            return self.context

    def __repr__(self) -> str:
        shown = (f"{item.name}={self._shown(item.name)}" for item in dataclasses.fields(self) if item.repr)
        return f"{type(self).__name__}({', '.join(shown)})"

    def _shown(self, name: str) -> str:
        try:
            return repr(getattr(self, name))
        except (StoreDamaged, UnreadablePayload) as error:
            # A list of checkpoints can be looked at although one of them is damaged.
            return f"<{type(error).__name__}>"

    def __getstate__(self) -> dict[str, Any]:
        # A pickle takes the decoded context along, not the way to it, and of schema and checks what can be pickled.
        kept = {"schema": next(_picklable(self.schema), None), "checks": tuple(_picklable(*self.checks))}
        return {"context": self.context, **vars(self), **kept}

    def __copy__(self) -> Checkpoint:
        return dataclasses.replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Checkpoint:
        own = {name: copy.deepcopy(getattr(self, name), memo) for name in ("context", "required_keys")}
        return dataclasses.replace(self, **own)

    def defer_context(self, load: Callable[[], dict[str, Any]]) -> None:
        """Replace the context by a way to it, taken at the first touch.

        Args:
            load: gives the context; what it raises comes out of the touch.
        """
        del self.context
        vars(self)["_load_context"] = load

    def to_row(self) -> tuple[Any, ...]:
        """Give the nine columns of a 0.1.0 row.

        Returns:
            Values in 0.1.0's column order, dict and list columns as JSON text.

        Raises:
            PayloadError: when the context is cyclic or nested too deeply.
        """
        return (
            self.checkpoint_id,
            self.run_id,
            self.from_agent,
            self.to_agent,
            dumps_safe(self.context),
            dumps_safe(self.required_keys),
            self.created_at,
            self.status.value,
            self.error,
        )

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> Checkpoint:
        """Read a row made by `to_row`.

        Args:
            row: the nine columns.

        Returns:
            The checkpoint.

        Raises:
            ValueError: when a JSON column is broken; it names the field.
        """
        checkpoint_id, run_id, from_agent, to_agent, context, required_keys, created_at, status, error = row
        return cls(
            run_id=run_id,
            from_agent=from_agent,
            to_agent=to_agent,
            context=loads_field(context, "context"),
            required_keys=loads_field(required_keys, "required_keys"),
            checkpoint_id=checkpoint_id,
            created_at=created_at,
            status=HandoffStatus(status),
            error=error,
        )

    def state_as(self, kind: type[T]) -> T:
        """Give the application state as a dataclass, TypedDict or pydantic model.

        Args:
            kind: the type wanted; ``dict`` gives a plain copy.

        Returns:
            The state as that type.

        Raises:
            TypeError: when the type is none of these, or a dataclass misses a field.
            ValueError: when the state is unfit.
        """
        return as_type(kind, checkpoint_state(self))

    def context_as(self, kind: type[T]) -> T:
        """Give the whole context as a dataclass, TypedDict or pydantic model.

        Args:
            kind: the type wanted; ``dict`` gives a plain copy.

        Returns:
            The context as that type.

        Raises:
            TypeError: when the type is none of these, or a dataclass misses a field.
            ValueError: when the context is unfit.
        """
        return as_type(kind, self.context)


def _picklable(*objects: Any) -> Iterator[Any]:
    import pickle  # no part of what most programs do

    for one in objects:
        try:
            pickle.dumps(one)
        except Exception:
            continue
        yield one


def context_to_mapping(context: Any) -> dict[str, Any]:
    """Give a context as a dict.

    Args:
        context: a dict, a dataclass instance or a pydantic model.

    Returns:
        A new dict; values are not copied.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(context, dict):
        return dict(cast("dict[str, Any]", context))
    if not isinstance(context, type):
        if dataclasses.is_dataclass(context):
            return data_fields(context)
        if is_model(context):
            return model_fields(context)
        dump = getattr(context, "model_dump", None)
        fields = dump() if callable(dump) else None
        if isinstance(fields, dict):
            return cast("dict[str, Any]", fields)
    raise TypeError(f"a context is a dict, a dataclass instance or a pydantic model, not {type(context).__name__}")


def is_handoff_envelope(payload: Any) -> bool:
    """Tell a handoff envelope from application data.

    Args:
        payload: any context.

    Returns:
        True only for exactly ``state``, ``messages`` and ``meta``, with both agents named in ``meta``.
    """
    if not is_dict(payload) or payload.keys() != _ENVELOPE_KEYS:
        return False
    meta: object = payload["meta"]
    if not (isinstance(payload["state"], dict) and isinstance(payload["messages"], list) and is_dict(meta)):
        return False
    return "from_agent" in meta and "to_agent" in meta


def make_handoff_envelope(
    state: dict[str, Any],
    *,
    from_agent: str,
    to_agent: str,
    messages: list[Any] | None = None,
    sdk: str = "openai-agents",
) -> dict[str, Any]:
    """Put state, messages and the agents' names into one context.

    Args:
        state: the application's data.
        from_agent: the agent handing over.
        to_agent: the agent receiving.
        messages: the conversation so far.
        sdk: which SDK the messages come from.

    Returns:
        The envelope; state and messages are copied one level deep.
    """
    meta = {"from_agent": from_agent, "to_agent": to_agent, "sdk": sdk}
    return {"state": dict(state), "messages": list(messages or []), "meta": meta}


def checkpoint_state(checkpoint: Checkpoint | dict[str, Any]) -> dict[str, Any]:
    """Give the application state.

    Args:
        checkpoint: a checkpoint or its context.

    Returns:
        A copy of the envelope's state, or of the whole flat dict.
    """
    payload = checkpoint.context if isinstance(checkpoint, Checkpoint) else checkpoint
    return dict(payload["state"]) if is_handoff_envelope(payload) else dict(payload)


def checkpoint_messages(checkpoint: Checkpoint | dict[str, Any]) -> list[Any]:
    """Give the conversation.

    Args:
        checkpoint: a checkpoint or its context.

    Returns:
        A copy of the envelope's messages; nothing for a flat dict.
    """
    payload = checkpoint.context if isinstance(checkpoint, Checkpoint) else checkpoint
    return list(payload["messages"]) if is_handoff_envelope(payload) else []
