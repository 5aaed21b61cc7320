"""The application's context: read for a checkpoint, and restored into the caller's own object."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, cast

from agent_handoff_kit.errors import PayloadError
from agent_handoff_kit.models import Checkpoint, context_to_mapping, json_sanitize, make_handoff_envelope
from agent_handoff_kit.openai_adapter.plain import as_dict, as_list
from agent_handoff_kit.serialization import decode, encode

ExtractContext = Callable[..., dict[str, Any]]
_TRIES = 20


class ContextPort:
    """Takes snapshots of one context object and restores them into it.

    Args:
        context: the caller's object: None, a dict, a dataclass or a pydantic model, or anything with
            ``dump`` and ``load``.
        dump: gives the context as a dict of storable values.
        load: called with the context and such a dict; puts the values into the context.
        types: types that are stored as themselves.

    Raises:
        TypeError: the context cannot be restored in place.
    """

    def __init__(
        self,
        context: Any,
        dump: Callable[[Any], dict[str, Any]] | None,
        load: Callable[[Any, dict[str, Any]], Any] | None,
        types: tuple[type, ...],
    ) -> None:
        if (dump is None) != (load is None):
            raise TypeError("give both dump= and load=, or neither")
        if dump is None and _is_fixed(context):
            kind = type(context).__name__
            raise TypeError(f"a context of type {kind} cannot be restored in place; give dump= and load=")
        self._context: Any = context
        self._dump = dump
        self._load = load
        self._types = types

    def taken(self) -> dict[str, Any]:
        """A snapshot that later changes to the context do not reach.

        Raises:
            PayloadError: a value cannot be stored as it is; names its path. Or ``dump`` failed.
        """
        tries = _TRIES
        while True:
            tries -= 1
            try:
                return self._taken()
            except RuntimeError as error:
                # A tool in a thread changes the dict while it is read.
                if tries < 1 or ("changed size" not in str(error) and "mutated during" not in str(error)):
                    raise PayloadError("context", f"it could not be read: {error!r}") from error

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Put a snapshot into the caller's object; one that is as it was keeps the very objects that are in it.

        Raises:
            PayloadError: the object does not take the values.
        """
        data = encode(snapshot, types=self._types)
        if data == encode(self.taken(), types=self._types):
            return
        values = decode(data, types=self._types)
        try:
            self._put(values)
        except Exception as error:
            raise PayloadError("context", f"what was kept of it could not be restored: {error!r}") from error

    def _put(self, values: dict[str, Any]) -> None:
        if self._load is not None:
            self._load(self._context, values)
        elif (held := as_dict(self._context)) is not None:
            held.clear()
            held.update(values)
        elif self._context is not None:
            _restore_fields(self._context, values)

    def _mapping(self) -> dict[str, Any]:
        if self._dump is None:
            return {} if self._context is None else context_to_mapping(self._context)
        try:
            mapping = as_dict(self._dump(self._context))
        except RuntimeError:
            raise
        except Exception as error:
            raise PayloadError("context", f"dump failed: {error!r}") from error
        if mapping is None:
            raise PayloadError("context", "dump did not return a dict")
        return mapping

    def _taken(self) -> dict[str, Any]:
        mapping = self._mapping()
        # A record's own type makes its fields again; what is in a dict has to come back by itself.
        noted: list[str] | None = [] if self._dump is None and as_dict(self._context) is None else None
        data = encode(mapping, strict=True, types=self._types, root="context", noted=noted)
        taken: dict[str, Any] = decode(data, types=self._types)
        return taken


def context_from_run_context(ctx: Any, input_data: Any = None) -> dict[str, Any]:
    """The application state in an SDK run context, with the handoff's input merged in.

    Args:
        ctx: any object with ``.context``.
        input_data: the handoff's input: a dict or pydantic model.

    Returns:
        A new dict; that of the envelope's state where the context is a handoff envelope.
    """
    state = _mapping_of(getattr(ctx, "context", None))
    inner = as_dict(state.get("state")) if "meta" in state else None
    if inner is not None:
        state = inner
    return {**state, **_mapping_of(input_data)}


def messages_from_run_context(ctx: Any) -> list[Any]:
    """The turn's input in an SDK run context, reduced to JSON.

    Args:
        ctx: any object with ``.turn_input``.

    Returns:
        A new list; empty where there is none.
    """
    turn_input = as_list(getattr(ctx, "turn_input", None))
    return [json_sanitize(item) for item in turn_input or ()]


def build_envelope_from_run_context(
    ctx: Any,
    *,
    from_agent: str,
    to_agent: str,
    input_data: Any = None,
    extract_context: ExtractContext | None = None,
) -> dict[str, Any]:
    """The envelope for a handoff, from an SDK run context.

    Args:
        ctx: any object with ``.context`` and ``.turn_input``.
        from_agent: who hands over.
        to_agent: who receives.
        input_data: the handoff's input.
        extract_context: called with ``ctx`` and, where it takes two arguments, ``input_data``; gives the state.

    Raises:
        TypeError: ``extract_context`` did not return a dict.
    """
    state = extracted_state(ctx, input_data, extract_context)
    messages = messages_from_run_context(ctx)
    return make_handoff_envelope(state, from_agent=from_agent, to_agent=to_agent, messages=messages)


def extracted_state(ctx: Any, input_data: Any, extract_context: ExtractContext | None) -> dict[str, Any]:
    """The state for a handoff: the user's extract of the run context, or all of it."""
    if extract_context is None or extract_context is context_from_run_context:
        return context_from_run_context(ctx, input_data)
    state: Any = extract_context(ctx, input_data) if takes_two(extract_context) else extract_context(ctx)
    if not isinstance(state, dict):
        raise TypeError(f"extract_context returned {type(state).__name__}; return a dict")
    return cast("dict[str, Any]", state)


def takes_two(function: Callable[..., Any]) -> bool:
    """Whether a callable can be given two positional arguments."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def _mapping_of(value: Any) -> dict[str, Any]:
    try:
        return context_to_mapping(value)
    except TypeError:
        return {}


def _is_fixed(context: Any) -> bool:
    if context is None or isinstance(context, dict):
        return False
    if dataclasses.is_dataclass(context) and not isinstance(context, type):
        parameters: Any = getattr(context, "__dataclass_params__", None)
        return bool(getattr(parameters, "frozen", False))
    config: Any = getattr(context, "model_config", None)
    return not hasattr(context, "model_dump") or bool(config and config.get("frozen"))


def _restore_fields(context: Any, values: dict[str, Any]) -> None:
    rebuilt = _rebuilt(context, values)
    held = getattr(rebuilt, "__dict__", {})
    slots = [one.name for one in dataclasses.fields(rebuilt)] if dataclasses.is_dataclass(rebuilt) else []
    for name in {*held, *slots, "__pydantic_extra__", "__pydantic_fields_set__"}:
        if hasattr(rebuilt, name):
            object.__setattr__(context, name, getattr(rebuilt, name))


def _rebuilt(context: Any, values: dict[str, Any]) -> object:
    checkpoint = Checkpoint("restored", "restored", "restored", values, [])
    rebuilt: object = checkpoint.context_as(context.__class__)
    return rebuilt
