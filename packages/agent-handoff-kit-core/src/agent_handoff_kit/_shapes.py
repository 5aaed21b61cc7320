"""From plain mappings to a user's own types."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

from agent_handoff_kit._annotations import Fitting, with_later_fields, with_members
from agent_handoff_kit._callables import innermost
from agent_handoff_kit._kinds import is_dict, is_typed_dict, type_of

T = TypeVar("T")


@lru_cache(maxsize=256)
def adapter_for(kind: Any) -> Any:
    """Give pydantic's adapter for a type.

    Args:
        kind: a dataclass, TypedDict or pydantic model.

    Returns:
        A ``TypeAdapter``, or None when pydantic is absent or has no schema for the type.
    """
    try:
        pydantic: Any = importlib.import_module("pydantic")
    except ImportError:
        return None
    try:
        adapter = pydantic.TypeAdapter(kind)
    except (pydantic.errors.PydanticUserError, NameError):
        return None
    return adapter if adapter.pydantic_complete else None


def validated(kind: Any, adapter: Any, value: Any) -> Any:
    """What pydantic makes of a stored value: fields go by their own names, and by their aliases too."""
    try:
        return adapter.validate_python(value, **_by_name())
    except ValueError as error:
        # Enums are stored by value; a strict type takes their members only.
        again = with_members(kind, value)
        try:
            return adapter.validate_python(again, **_by_name())
        except ValueError:
            raise error from None


@lru_cache(maxsize=1)
def _by_name() -> dict[str, bool]:
    pydantic: Any = importlib.import_module("pydantic")
    knows = tuple(map(int, pydantic.VERSION.split(".")[:2])) >= (2, 11)
    return {"by_name": True, "by_alias": True} if knows else {}


def as_type(kind: type[T], data: Mapping[str, Any]) -> T:
    """Turn a mapping into the type asked for.

    Args:
        kind: ``dict``, a dataclass, a TypedDict or a pydantic model.
        data: the fields.

    Returns:
        An instance of the type.

    Raises:
        TypeError: when the type is none of these, its annotations cannot be resolved, or a dataclass misses a field.
        ValueError: when the data are unfit.
    """
    target: Any = kind
    if target is dict:
        return cast(T, dict(data))
    if not (dataclasses.is_dataclass(target) or is_typed_dict(target) or hasattr(target, "model_validate")):
        raise TypeError(f"{target!r} is not a dict, dataclass, TypedDict or pydantic model")
    adapter = adapter_for(target)
    if adapter is None:
        return cast(T, _fitted(target, data))
    made = validated(target, adapter, dict(data))
    return cast(T, with_later_fields(made, data) if dataclasses.is_dataclass(made) else made)


def _fitted(kind: Any, data: Mapping[str, Any]) -> Any:
    fitting = Fitting()
    made = fitting.fit(kind, dict(data))
    if fitting.objections:
        raise (TypeError if fitting.missing else ValueError)("; ".join(fitting.objections))
    return made


def rebuilder(function: Callable[..., Any], returns: Any) -> Callable[[Any], Any]:
    """How to give a stored result back as its type.

    Args:
        function: whose return annotation counts where ``returns`` is None, if it is a record.
        returns: a dataclass, TypedDict, pydantic model, or a type that pydantic can validate.

    Returns:
        A callable of the stored value.

    Raises:
        TypeError: ``returns`` cannot be rebuilt.
    """
    kind = _record_hint(function, "return") if returns is None else returns
    if kind is None:
        return as_it_is
    if _is_record(kind):
        return functools.partial(_record, kind)
    adapter = adapter_for(kind)
    if adapter is None:
        raise TypeError(f"returns={kind!r} cannot be rebuilt; give a dataclass, TypedDict or pydantic type")
    return functools.partial(validated, kind, adapter)


def parameter_type(function: Callable[..., Any]) -> Any:
    """The record type that a function's first parameter is annotated with; None without one."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    return _record_hint(function, names[0]) if names else None


def _record_hint(function: Callable[..., Any], name: str) -> Any:
    plain = innermost(function)
    annotated: Any = plain if hasattr(plain, "__globals__") else cast(Any, type_of(plain)).__call__
    try:
        # Each annotation by itself: another one may name what only type checkers see.
        only = types.SimpleNamespace(__annotations__={name: annotated.__annotations__[name]})
        kind = typing.get_type_hints(only, globalns=annotated.__globals__)[name]
    except Exception:
        # An annotation may be any expression, so it may raise anything; without it there is no type to make.
        return None
    return kind if _is_record(kind) else None


def _is_record(kind: Any) -> bool:
    if not isinstance(kind, type):
        return False
    return dataclasses.is_dataclass(kind) or is_typed_dict(kind) or hasattr(cast(Any, kind), "model_validate")


def _record(kind: Any, value: Any) -> Any:
    return as_type(kind, value) if is_dict(value) else value


def as_it_is(value: Any) -> Any:
    """What gives a result back where no type is to be made of it."""
    return value
