"""What a value or a type is, told in a way that type checkers can follow."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeGuard

# The builtin under a type that checkers can follow.
type_of: Callable[[object], type[object]] = type


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    """Whether it is a dict."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list."""
    return isinstance(value, list)


def is_model(value: object) -> TypeGuard[Any]:
    """Whether it is an instance of a pydantic model, told without importing pydantic."""
    return is_model_class(type(value))


def is_model_class(kind: type[object]) -> TypeGuard[Any]:
    """Whether it is a pydantic model."""
    pydantic: Any = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def is_typed_dict(kind: Any) -> bool:
    """Whether it is a TypedDict, from whichever module."""
    return isinstance(kind, type) and hasattr(kind, "__required_keys__") and dict in kind.__mro__


def is_named_tuple(kind: Any) -> bool:
    """Whether it is a class of named tuples."""
    return tuple in kind.__mro__ and hasattr(kind, "_fields")


def is_record(kind: object) -> TypeGuard[type[object]]:
    """Whether it is a class whose instances are values by name: dataclass, model, named tuple or enum."""
    # On Python 3.10 list[int] passes for a type.
    if not isinstance(kind, type) or typing.get_origin(kind) is not None:
        return False
    one: type[object] = kind
    return issubclass(one, Enum) or dataclasses.is_dataclass(one) or is_named_tuple(one) or is_model_class(one)
