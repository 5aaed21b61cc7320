"""From plain mappings to a user's own types."""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

from agent_handoff_kit._tagged_read import is_dict

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
        return pydantic.TypeAdapter(kind)
    except (pydantic.errors.PydanticUserError, NameError):
        return None


def as_type(kind: type[T], data: Mapping[str, Any]) -> T:
    """Turn a mapping into the type asked for.

    Args:
        kind: ``dict``, a dataclass, a TypedDict or a pydantic model.
        data: the fields.

    Returns:
        An instance of the type.

    Raises:
        TypeError: when the type is none of these, or a dataclass misses a field.
        ValueError: when pydantic finds the data unfit.
    """
    target: Any = kind
    if target is dict:
        return cast(T, dict(data))
    if not (dataclasses.is_dataclass(target) or is_typed_dict(target) or hasattr(target, "model_validate")):
        raise TypeError(f"{target!r} is not a dict, dataclass, TypedDict or pydantic model")
    adapter = adapter_for(target)
    if adapter is not None:
        return cast(T, adapter.validate_python(dict(data)))
    return cast(T, _build(target, data) if dataclasses.is_dataclass(target) else dict(data))


def is_typed_dict(kind: Any) -> bool:
    """Tell whether a type is a TypedDict, from whichever module.

    Args:
        kind: any object.

    Returns:
        True for a TypedDict class.
    """
    return isinstance(kind, type) and hasattr(kind, "__required_keys__") and dict in kind.__mro__


def _build(kind: Any, data: Mapping[str, Any]) -> Any:
    hints = typing.get_type_hints(kind)
    given: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        if item.init and item.name in data:
            given[item.name] = _nested(hints.get(item.name), data[item.name])
    return kind(**given)


def _nested(hint: Any, value: Any) -> Any:
    if not is_dict(value) or typing.get_origin(hint) is dict:
        return value
    options = [o for o in (hint, *typing.get_args(hint)) if isinstance(o, type) and dataclasses.is_dataclass(o)]
    return _build(options[0], value) if options else value
