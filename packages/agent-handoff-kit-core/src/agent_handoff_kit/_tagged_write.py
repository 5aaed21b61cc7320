"""Writing side of tagged JSON: the full walk, for values that are not plain JSON already."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from typing import Any, NoReturn, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from agent_handoff_kit._kinds import is_model, type_of
from agent_handoff_kit._plain import spelled_alike
from agent_handoff_kit._registered import (
    BUILTINS,
    alike,
    data_fields,
    model_content,
    model_fields,
    registry,
)
from agent_handoff_kit._tagged_read import (
    INT_MAX,
    INT_MIN,
    MAX_DEPTH,
    TAG,
    stdlib,
    untag,
    whole,
)
from agent_handoff_kit.errors import LossyPayloadWarning, PayloadError


def complain(path: str, kind: type, what: str, *, strict: bool) -> None:
    """Refuse a value that loses something, or warn about it."""
    if strict:
        raise PayloadError(path, f"a {kind.__name__} {what}")
    warnings.warn(LossyPayloadWarning(f"{path}: {kind.__name__} {what}"), stacklevel=4)


def _tagged(name: str, content: Any) -> dict[str, Any]:
    return {TAG: name, "v": content}


_NAN = '{"$ahk":"num","v":"nan"}'  # Not equal to itself, so several may stand in one set.


class Encoder:
    """One walk over one value; thrown away after it, also when it fails.

    ``noted``: the value is that of a record type, which makes it again. Paths at which a type is lost are noted
    there, without a complaint, and pydantic models are written as the instance holds them.
    """

    def __init__(
        self,
        strict: bool,
        max_bytes: int,
        types: Sequence[type],
        root: str,
        *,
        noted: list[str] | None = None,
    ) -> None:
        self.strict = strict
        self.noted = noted
        self.budget = max_bytes
        self.portable = True
        self.kinds = tuple(types)
        self.types = registry(self.kinds)
        self.checking = False
        self.root = root
        self.trail: list[Any] = []
        self.open: set[int] = set()

    def path(self) -> str:
        steps = [f".{s}" if isinstance(s, str) and s.isidentifier() else f"[{s!r}]" for s in self.trail]
        return ascii(self.root + "".join(steps))[1:-1] if not whole("".join(steps)) else self.root + "".join(steps)

    def refuse(self, reason: str) -> NoReturn:
        raise PayloadError(self.path(), reason)

    def walk(self, value: Any, depth: int) -> Any:
        write = _WRITERS.get(type_of(value))
        return write(self, value, depth) if write is not None else self.other(value, depth)

    def child(self, step: Any, value: Any, depth: int) -> Any:
        self.trail.append(step)
        tree = self.walk(value, depth)
        self.trail.pop()
        return tree

    def enter(self, value: Any, size: int, depth: int) -> None:
        if id(value) in self.open:
            self.refuse("the value contains itself (a cycle)")
        if depth > MAX_DEPTH:
            self.refuse(f"nested more than {MAX_DEPTH} levels deep")
        self.budget -= size + 1
        if self.budget < 0:
            self.refuse("the payload is over its size limit")
        self.open.add(id(value))

    def text(self, value: str, depth: int) -> Any:
        if whole(value):
            return value
        # Escaped halves next to each other would be read back as one character, so the bytes are spelled out.
        return _tagged("str", value.encode("utf-8", "surrogatepass").hex())

    def integer(self, value: int, depth: int) -> Any:
        # Hexadecimal, because the interpreter limits the length of decimal text.
        return value if INT_MIN <= value <= INT_MAX else _tagged("int", format(value, "x"))

    def real(self, value: float, depth: int) -> Any:
        self.portable = self.portable and spelled_alike(value)
        return value if math.isfinite(value) else _tagged("num", repr(value))

    def moment(self, value: datetime | time, depth: int) -> Any:
        zone = self.zone(value.tzinfo)
        if zone is False:
            return self.lossy(value, depth)
        text = value.replace(tzinfo=None).isoformat()
        return _tagged("dt" if isinstance(value, datetime) else "time", [text, value.fold, zone])

    def zone(self, zone: tzinfo | None) -> Any:
        if zone is None:
            return None
        if type(zone) is timezone:
            offset = zone.utcoffset(None)
            args: list[Any] = [offset.days, offset.seconds, offset.microseconds]
            name = zone.tzname(None)
            return args if name == timezone(offset).tzname(None) else [*args, name]
        return zone.key if type(zone) is ZoneInfo and isinstance(cast(Any, zone).key, str) else False

    def items(self, value: Any, depth: int) -> list[Any]:
        self.enter(value, len(value), depth)
        tree = [self.child(i, item, depth + 1) for i, item in enumerate(value)]
        self.open.discard(id(value))
        return tree

    def members(self, value: Any, depth: int) -> list[Any]:
        self.enter(value, len(value), depth)
        trees = [self.hashable(item, depth + 1) for item in value]
        self.open.discard(id(value))
        return self.ordered(trees, lambda tree: tree)

    def hashable(self, value: Any, depth: int) -> Any:
        self.trail.append(value if isinstance(value, (str, int)) else type(value).__name__)
        tree = self.walk(value, depth)
        try:
            hash(untag(json.loads(stdlib(tree)), self.types))
        except TypeError:
            tree = self.described(value, depth)
        self.trail.pop()
        return tree

    def ordered(self, trees: list[Any], key: Callable[[Any], Any]) -> list[Any]:
        keyed = sorted(((stdlib(key(tree)), tree) for tree in trees), key=lambda pair: pair[0])
        for (left, _), (right, _) in pairwise(keyed):
            if left == right and _NAN not in left:
                self.refuse(f"two different keys or members are both written as {left}")
        return [tree for _, tree in keyed]

    def mapping(self, value: dict[Any, Any], depth: int) -> Any:
        plain = all(type(key) is str and whole(key) for key in value)
        escaped = plain and TAG in value
        inner = depth if plain and not escaped else depth + (1 if escaped else 2)
        self.enter(value, len(value), inner)
        if plain:
            tree: Any = {key: self.child(key, item, inner + 1) for key, item in value.items()}
        else:
            pairs = [[self.hashable(k, inner + 1), self.child(k, v, inner + 1)] for k, v in value.items()]
            tree = _tagged("map", self.ordered(pairs, lambda pair: pair[0]))
        self.open.discard(id(value))
        return _tagged("esc", tree) if escaped else tree

    def other(self, value: Any, depth: int) -> Any:
        """Handle what has no writer by exact type: registered types first, then types that keep only their value."""
        if isinstance(value, Enum):
            return self.named("enum", lambda: value.value, value, depth)
        if is_model(value):
            return self.model(value, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self.named("data", lambda: data_fields(value), value, depth)
        for base in BUILTINS:
            if isinstance(value, base):
                return self.like(base, value, depth)
        return self.lossy(value, depth)

    def is_registered(self, kind: type) -> bool:
        return self.types.get(kind.__name__) is kind

    def model(self, value: Any, depth: int) -> Any:
        if self.is_registered(type_of(value)):
            return self.named("model", lambda: {**model_content(value), **self.private(value)}, value, depth)
        self.retyped(value, dict)
        fields = value.model_dump if self.noted is None else lambda: model_fields(value)
        return self.content(fields, value, depth)

    def private(self, value: Any) -> dict[str, Any]:
        """The private attributes of a model, if all of them can be kept."""
        held = value.__pydantic_private__
        try:
            Encoder(True, self.budget, self.kinds, self.root).walk(held, 1)
        except PayloadError:
            return {}
        return {"private": held} if held else {}

    def like(self, base: type, value: Any, depth: int) -> Any:
        """Write an instance of a builtin type's subclass."""
        if self.is_registered(type_of(value)):
            return self.checked("like", lambda: self.as_base(base, value, depth + 1), value, depth)
        self.retyped(value, base)
        return self.as_base(base, value, depth)

    def as_base(self, base: type, value: Any, depth: int) -> Any:
        plain = _VALUE_OF.get(base)
        return _WRITERS[base](self, value if plain is None else plain(value), depth)

    def named(self, tag: str, content: Callable[[], Any], value: Any, depth: int) -> Any:
        if self.is_registered(type_of(value)):
            return self.checked(tag, lambda: self.content(content, value, depth + 1), value, depth)
        return self.content(content, value, depth)

    def content(self, content: Callable[[], Any], value: Any, depth: int) -> Any:
        self.enter(value, -1, depth)
        try:
            fields = content()
        except Exception as exc:
            self.refuse(f"reading the value out of {type(value).__name__} failed: {exc!r}")
        tree = self.walk(fields, depth)
        self.open.discard(id(value))
        return tree

    def checked(self, tag: str, write: Callable[[], Any], value: Any, depth: int) -> Any:
        """Write an instance of a registered type; the outermost one must come back equal."""
        outermost, self.checking = not self.checking, True
        content = write()
        tree = {TAG: tag, "t": type(value).__name__, "v": content}
        if not outermost:
            return tree
        self.checking = False
        try:
            back = untag(json.loads(stdlib(tree)), self.types)
        except Exception as error:
            self.complain(value, f"comes back without its type, which cannot be made from its fields: {error!r}")
            return self.untyped(value, depth)
        if not alike(value, back):
            self.complain(value, "does not come back equal from what is stored of it")
        return tree

    def lossy(self, value: Any, depth: int) -> Any:
        self.complain(value)
        for method in ("model_dump", "dict"):
            dump = None if isinstance(value, type) else getattr(value, method, None)
            if not callable(dump):
                continue
            try:
                simpler = dump()
            except Exception:
                continue
            self.enter(value, 1, depth)
            tree = self.walk(simpler, depth + 1)
            self.open.discard(id(value))
            return tree
        return self.spelled(value, depth)

    def described(self, value: Any, depth: int) -> Any:
        self.complain(value)
        return self.spelled(value, depth)

    def spelled(self, value: Any, depth: int) -> Any:
        try:
            return self.text(str(value), depth)
        except Exception as exc:
            self.refuse(f"str() of {type(value).__name__} failed: {exc!r}")

    def untyped(self, value: Any, depth: int) -> Any:
        types, noted = self.types, self.noted
        self.types, self.noted = {}, []
        tree = self.walk(value, depth)
        self.types, self.noted = types, noted
        return tree

    def retyped(self, value: Any, base: type) -> None:
        if self.noted is None:
            self.complain(value, f"comes back as {base.__name__}; convert it, or register its type")
        else:
            self.noted.append(self.path())

    def complain(self, value: Any, what: str = "is stored in a simpler form; convert it, or register its type") -> None:
        complain(self.path(), type_of(value), what, strict=self.strict)


def _simple(tag: str, spell: Callable[[Any], Any]) -> Callable[[Encoder, Any, int], Any]:
    return lambda encoder, value, depth: _tagged(tag, spell(value))


_WRITERS: dict[type, Callable[[Encoder, Any, int], Any]] = {
    type(None): lambda encoder, value, depth: None,
    bool: lambda encoder, value, depth: value,
    str: Encoder.text,
    int: Encoder.integer,
    float: Encoder.real,
    dict: Encoder.mapping,
    list: Encoder.items,
    tuple: lambda encoder, value, depth: _tagged("tuple", encoder.items(value, depth + 1)),
    set: lambda encoder, value, depth: _tagged("set", encoder.members(value, depth + 1)),
    frozenset: lambda encoder, value, depth: _tagged("fset", encoder.members(value, depth + 1)),
    datetime: Encoder.moment,
    time: Encoder.moment,
    date: _simple("date", date.isoformat),
    timedelta: _simple("td", lambda v: [v.days, v.seconds, v.microseconds]),
    UUID: _simple("uuid", str),
    Decimal: _simple("dec", str),
    bytes: _simple("bytes", bytes.hex),
}
_VALUE_OF: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes(memoryview(value)),
}
