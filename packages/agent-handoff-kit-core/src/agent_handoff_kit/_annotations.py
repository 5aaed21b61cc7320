"""Values made into what type annotations say, with the standard library alone."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, cast

from agent_handoff_kit._kinds import is_dict, is_model_class, is_named_tuple, is_record, is_typed_dict, type_of

_BUILTINS = (dict, list, tuple, set, frozenset, str, int, float, bytes)
_WRAPPERS = {"Annotated", "Required", "NotRequired", "ReadOnly", "Final", "ClassVar", "InitVar"}
_ITEMS = (list, tuple, set, frozenset)


@lru_cache(maxsize=256)
def hints_of(kind: Any) -> dict[str, Any]:
    """The annotations of a class, resolved.

    Raises:
        TypeError: one of them names something that cannot be found.
    """
    try:
        return typing.get_type_hints(kind)
    except (NameError, TypeError, AttributeError) as error:
        raise TypeError(
            f"the annotations of {kind.__name__} cannot be resolved ({error}); "
            "import what they name, not only for type checkers, and define it at the top level of its module"
        ) from error


class Fitting:
    """One pass over one value: it gives the value as annotated, and collects what does not fit.

    Nested dicts become the dataclasses that annotations name, and the values of enums their members.

    Attributes:
        missing: fields without a value and without a default.
        unfit: values of another type than their annotation.
        ignored: how many entries of dicts no field took.
    """

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.unfit: list[str] = []
        self.ignored = 0

    @property
    def objections(self) -> list[str]:
        """Everything that does not fit."""
        return [*self.missing, *self.unfit]

    def fit(self, hint: Any, value: Any, path: str = "") -> Any:
        """The value as the annotation says; the value itself where it does not fit."""
        hint = bare(hint)
        origin = typing.get_origin(hint)
        if origin is typing.Union or origin is types.UnionType:
            return self._one_of(hint, value, path)
        if origin is typing.Literal:
            return value if value in typing.get_args(hint) else self._refused(hint, value, path)
        kind = hint if origin is None else origin
        if not isinstance(kind, type) or kind is object:
            return value
        return self._as_kind(kind, typing.get_args(hint), value, path)

    def _as_kind(self, kind: Any, arguments: tuple[Any, ...], value: Any, path: str) -> Any:
        if is_dict(value):
            if dataclasses.is_dataclass(kind):
                return self._dataclass(kind, value, path)
            if is_typed_dict(kind):
                return self._typed_dict(kind, value, path)
            if hasattr(kind, "model_validate"):
                hints_of(kind)
                return self._made(kind.model_validate, path, value)
        if issubclass(kind, Enum):
            return value if isinstance(value, kind) else self._made(kind, path, value)
        if is_named_tuple(kind) and isinstance(value, (tuple, list)):
            return self._named_tuple(kind, cast("Sequence[Any]", value), path)
        if is_typed_dict(kind):
            return self._refused(kind, value, path)
        if is_dict(value) and issubclass(kind, Mapping):
            return self._mapping(kind, arguments, value, path)
        if _takes(kind, value):
            return self._items(kind, arguments, value, path)
        return self._plain(kind, value, path)

    def _plain(self, kind: Any, value: Any, path: str) -> Any:
        if kind is float and type_of(value) is int:
            return value
        try:
            if isinstance(value, kind):
                return value
        except TypeError:  # A protocol that cannot be asked.
            return value
        if kind is not bool and type_of(value) in _BUILTINS and type_of(value) in kind.__mro__:
            return self._made(kind, path, value)
        return self._refused(kind, value, path)

    def _one_of(self, hint: Any, value: Any, path: str) -> Any:
        options = [bare(option) for option in typing.get_args(hint)]
        if type_of(value) in options:
            return value
        trials = [(option, Fitting()) for option in options]
        made = [(trial, trial.fit(option, value, path)) for option, trial in trials]
        fitting = [one for one in made if not one[0].objections]
        if not fitting:
            return self._refused(hint, value, path)
        best, result = min(fitting, key=lambda one: one[0].ignored)
        self.ignored += best.ignored
        return result

    def _dataclass(self, kind: Any, data: dict[str, Any], path: str) -> Any:
        before = len(self.objections)
        names = {field.name: field.init for field in dataclasses.fields(kind)}
        given = self._fields(kind, {name: data[name] for name in names if name in data}, path)
        self._require(kind, data, path)
        self.ignored += len(data) - len(given)
        if len(self.objections) > before:
            return data
        arguments = {name: item for name, item in given.items() if names[name]}
        made = self._made(kind, path, **arguments)
        return data if made is None else with_later_fields(made, given)

    def _typed_dict(self, kind: Any, data: dict[str, Any], path: str) -> dict[str, Any]:
        self._require(kind, data, path)
        self.ignored += len(data.keys() - hints_of(kind).keys())
        return self._fields(kind, data, path)

    def _fields(self, kind: Any, data: dict[str, Any], path: str) -> dict[str, Any]:
        hints = hints_of(kind)
        return {name: self.fit(hints.get(name, Any), item, f"{path}{name}.") for name, item in data.items()}

    def _require(self, kind: Any, data: dict[str, Any], path: str) -> None:
        absent = [name for name in required_fields(kind) if name not in data]
        self.missing += [f"{path}{name}: field of {kind.__name__} is missing" for name in absent]

    def _named_tuple(self, kind: Any, items: Sequence[Any], path: str) -> Any:
        if len(items) != len(kind._fields):
            return self._refused(kind, items, path)
        return kind(**self._fields(kind, dict(zip(kind._fields, items, strict=True)), path))

    def _mapping(self, kind: Any, arguments: tuple[Any, ...], value: dict[Any, Any], path: str) -> Any:
        key, item = arguments if len(arguments) == 2 else (Any, arguments[0] if arguments else Any)
        made = {self.fit(key, k, f"{path}{k}."): self.fit(item, v, f"{path}{k}.") for k, v in value.items()}
        if kind is dict or not issubclass(kind, dict):
            return made
        try:
            return cast(Any, kind)(made)
        except TypeError:  # A defaultdict: its factory was not stored.
            return made

    def _items(self, kind: Any, arguments: tuple[Any, ...], value: Iterable[Any], path: str) -> Any:
        items = list(value)
        if issubclass(kind, tuple) and arguments and arguments[-1] is not ...:
            hints: Sequence[Any] = () if arguments == ((),) else arguments
            if len(hints) != len(items):
                return self._refused(kind, value, path)
        else:
            hints = [arguments[0] if arguments else Any] * len(items)
        made = [self.fit(hint, item, f"{path}{n}.") for n, (hint, item) in enumerate(zip(hints, items, strict=True))]
        collection: Callable[[Any], Any] = cast(Any, kind if _is_collection(kind) else type_of(value))
        return collection(made)

    def _made(self, make: Callable[..., Any], path: str, *arguments: Any, **fields: Any) -> Any:
        try:
            return make(*arguments, **fields)
        except TypeError as error:
            (self.missing if dataclasses.is_dataclass(make) else self.unfit).append(f"{_place(path, make)}: {error}")
        except (ValueError, AssertionError) as error:
            # Like pydantic: only what says "unfit" is an objection, any other exception of the user's code comes out.
            self.unfit.append(f"{_place(path, make)}: {error}")
        return None

    def _refused(self, hint: Any, value: Any, path: str) -> Any:
        self.unfit.append(f"{_place(path, hint)}: expected {_name(hint)}, found {type(value).__name__}")
        return value


def with_members(hint: Any, value: Any) -> Any:
    """The value with enum members for their values, where annotations name the enum; all else as it is."""
    hint = bare(hint)
    arguments = typing.get_args(hint)
    if not arguments and isinstance(hint, type) and issubclass(hint, Enum):
        return _member(hint, value)
    if is_dict(value):
        return _dict_with_members(hint, arguments, value)
    if type_of(value) in _ITEMS and _is_collection(typing.get_origin(hint) or object):
        items: Sequence[Any] = value
        hints = arguments if len(arguments) == len(items) and arguments[-1] is not ... else arguments[:1] * len(items)
        collection: Callable[[Any], Any] = cast(Any, type_of(items))
        return collection(map(with_members, hints, items))
    made = (with_members(option, value) for option in arguments)
    return next((one for one in made if one is not value), value)


def _dict_with_members(hint: Any, arguments: tuple[Any, ...], value: dict[Any, Any]) -> dict[Any, Any]:
    kind = typing.get_origin(hint) or hint
    if is_record(kind) or is_typed_dict(kind):
        hints = _field_hints(kind)
        return {name: with_members(hints.get(name, Any), item) for name, item in value.items()}
    if len(arguments) == 2:
        return {with_members(arguments[0], key): with_members(arguments[1], item) for key, item in value.items()}
    return value


def _field_hints(kind: Any) -> dict[str, Any]:
    if is_model_class(kind):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return hints_of(kind)


def _member(kind: Any, value: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        return value


def required_fields(kind: Any) -> list[str]:
    """The names of the fields without which there is no instance of a dataclass or TypedDict."""
    if not dataclasses.is_dataclass(kind):
        return _required_keys(kind)
    absent = dataclasses.MISSING
    return [
        item.name
        for item in dataclasses.fields(kind)
        if item.init and item.default is absent and item.default_factory is absent
    ]


def _required_keys(kind: Any) -> list[str]:
    # Where annotations are strings the class itself did not see their qualifiers.
    hints = typing.get_type_hints(kind, include_extras=True)
    marks = {name: getattr(typing.get_origin(hint), "_name", None) for name, hint in hints.items()}
    required = {name for name, mark in marks.items() if mark == "Required"}
    return sorted(required | {name for name in kind.__required_keys__ if marks.get(name) != "NotRequired"})


def with_later_fields(made: Any, data: Mapping[str, Any]) -> Any:
    """The dataclass instance with the fields that its ``__init__`` does not take."""
    for field in dataclasses.fields(made):
        if not field.init and field.name in data:
            object.__setattr__(made, field.name, data[field.name])
    return made


def bare(hint: Any) -> Any:
    """The annotation without what stands around it: qualifiers, aliases, new types."""
    while True:
        name = getattr(typing.get_origin(hint), "_name", None)
        if hasattr(hint, "__metadata__"):
            hint = hint.__origin__
        elif name in _WRAPPERS:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, dataclasses.InitVar):
            hint = cast(Any, hint).type
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return type(None) if hint is None else hint


def _is_collection(kind: Any) -> bool:
    return issubclass(kind, _ITEMS)


def _takes(kind: Any, value: object) -> bool:
    """Whether the value holds items, and items stored as its kind of collection may be given as this one."""
    if not isinstance(value, _ITEMS):
        return False
    return _is_collection(kind) or (kind.__module__ == "collections.abc" and isinstance(value, kind))


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _place(path: str, hint: Any) -> str:
    return path.rstrip(".") or _name(hint)
