"""Registered types: which they are, what is kept of their instances, and how those are made again."""

from __future__ import annotations

import dataclasses
import math
import sys
import typing
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, cast

from agent_handoff_kit._annotations import bare
from agent_handoff_kit._kinds import is_dict, is_model, is_model_class, is_named_tuple, is_record, type_of
from agent_handoff_kit.errors import PayloadError

BUILTINS = (str, int, float, bytes, dict, list, tuple, set, frozenset)


@lru_cache(maxsize=256)
def registry(types: tuple[type, ...]) -> dict[str, type]:
    """The registered types by name, with the dataclasses, models and enums that their fields are annotated with.

    Raises:
        PayloadError: two of them have one name, or one is of no kind that can be kept.
    """
    known: dict[str, type] = {}
    for kind in types:
        if not (is_record(kind) or any(base in BUILTINS for base in kind.__mro__)):
            reason = f"{kind.__name__} is no enum, dataclass, pydantic model or subclass of a builtin type"
            raise PayloadError("types", reason)
        if known.setdefault(kind.__name__, kind) is not kind:
            raise PayloadError("types", f"two registered types are both named {kind.__name__!r}")
    return {**_brought_along(list(known.values())), **known}


def _brought_along(queue: list[type]) -> dict[str, type]:
    seen, found = set(queue), dict[str, set[type]]()
    while queue:
        for kind in _named_by(queue.pop()):
            if kind not in seen:
                seen.add(kind)
                queue.append(kind)
                found.setdefault(kind.__name__, set()).add(kind)
    # A name that stands for two of them stands for none.
    return {name: kinds.pop() for name, kinds in found.items() if len(kinds) == 1}


def _named_by(kind: Any) -> Iterator[type]:
    if is_model_class(kind):
        hints = [field.annotation for field in kind.model_fields.values()]
    else:
        try:
            hints = list(typing.get_type_hints(kind).values())
        except (NameError, TypeError, AttributeError):
            return
    while hints:
        hint = bare(hints.pop())
        hints.extend(typing.get_args(hint))
        if is_record(hint):
            yield hint


def data_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass instance by name."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def model_fields(value: Any) -> dict[str, Any]:
    """The fields of a pydantic model by name, and its extra ones, as the instance holds them.

    Not what ``model_dump`` gives: that leaves fields out, adds computed ones and knows other names.
    """
    held: dict[str, Any] = value.__dict__
    kind: Any = type_of(value)
    fields: dict[str, Any] = {name: held[name] for name in kind.model_fields if name in held}
    return {**fields, **(value.__pydantic_extra__ or {})}


def model_content(value: Any) -> dict[str, Any]:
    """All that is kept of a pydantic model, but for its private attributes."""
    fields = model_fields(value)
    extra: dict[str, Any] = value.__pydantic_extra__ or {}
    unset = [name for name in fields if name not in value.__pydantic_fields_set__]
    content: dict[str, Any] = {"fields": {name: item for name, item in fields.items() if name not in extra}}
    if extra:
        content["extra"] = extra
    if unset:
        content["unset"] = unset
    return content


def rebuilt(tag: str, kind: Any, content: Any) -> Any:
    """An instance of a registered type from what was kept of it.

    Raises:
        ValueError, TypeError: the type does not take it.
    """
    if tag == "enum":
        return kind(content)
    if tag == "model":
        return _model(kind, content)
    if tag == "data":
        return _dataclass(kind, content)
    if tag == "like":
        return kind(*content) if is_named_tuple(kind) else kind(content)
    raise ValueError(f"unknown tag {tag!r}")


def _dataclass(kind: Any, content: dict[str, Any]) -> Any:
    # Without __init__ and __post_init__: the stored fields already are what those had made.
    made = kind.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.name in content:
            item = content[field.name]
        elif field.default is not dataclasses.MISSING:
            item = field.default
        elif field.default_factory is not dataclasses.MISSING:
            item = field.default_factory()
        else:
            raise ValueError(f"field {field.name!r} of {kind.__name__} was not stored")
        object.__setattr__(made, field.name, item)
    return made


def _model(kind: Any, content: dict[str, Any]) -> Any:
    # Without validators, for the same reason.
    stored, extra = content["fields"], content.get("extra", {})
    held: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        if name in stored:
            held[name] = stored[name]
        elif field.is_required():
            raise ValueError(f"field {name!r} of {kind.__name__} was not stored")
        else:
            held[name] = _default(field, held)
    made = kind.__new__(kind)
    object.__setattr__(made, "__dict__", held)
    object.__setattr__(made, "__pydantic_fields_set__", {*stored, *extra} - set(content.get("unset", ())))
    object.__setattr__(made, "__pydantic_extra__", extra if kind.model_config.get("extra") == "allow" else None)
    object.__setattr__(
        made, "__pydantic_private__", content["private"] if "private" in content else _private(kind, held)
    )
    return made


def _private(kind: Any, held: dict[str, Any]) -> dict[str, Any] | None:
    pydantic_core: Any = sys.modules["pydantic_core"]
    defaults = {name: _default(one, held) for name, one in kind.__private_attributes__.items()}
    given = {name: item for name, item in defaults.items() if item is not pydantic_core.PydanticUndefined}
    return given if defaults else None


def _default(field: Any, held: dict[str, Any]) -> Any:
    factory = field.default_factory
    if factory is None:
        return field.get_default()
    return factory(held) if getattr(field, "default_factory_takes_validated_data", False) else factory()


def _private_of(value: Any) -> Any:
    return value.__pydantic_private__


def alike(left: Any, right: Any) -> bool:
    """Whether two values are equal, exact types included, whatever their types think of equality."""
    if type(left) is not type(right):
        return False
    if is_dict(left):
        return _dicts_alike(left, right)
    if isinstance(left, (list, tuple)):
        items = cast("list[Any]", left)
        return len(items) == len(right) and all(map(alike, items, right))
    if isinstance(left, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, Enum):
        return left is right
    if is_model(left):
        return all(alike(part(left), part(right)) for part in (model_fields, _private_of))
    if dataclasses.is_dataclass(left):
        return alike(data_fields(left), data_fields(right))
    try:
        return bool(left == right)
    except Exception:
        return False


def _dicts_alike(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    return len(left) == len(right) and all(key in right and alike(item, right[key]) for key, item in left.items())
