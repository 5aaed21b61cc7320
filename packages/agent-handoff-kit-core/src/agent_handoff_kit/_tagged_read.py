"""Reading side of tagged JSON, and what both sides share."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from agent_handoff_kit._kinds import is_list
from agent_handoff_kit._registered import rebuilt

TAG = "$ahk"
MAX_DEPTH = 200
MAX_BYTES = 64 * 2**20
MAX_TEXT = 255
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


ORJSON: Any = optional("orjson")


def plain_bytes(value: Any, *, portable: bool) -> bytes | None:
    """Write a plain tree, or give None when a string in it holds half a surrogate pair.

    The bytes are the same with and without orjson: processes that share a store compare digests.
    """
    try:
        return tree_bytes(value, portable=portable)
    except (TypeError, UnicodeEncodeError):
        return None


def stdlib(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def tree_bytes(tree: Any, *, portable: bool = True) -> bytes:
    return cast(bytes, ORJSON.dumps(tree)) if portable and ORJSON is not None else stdlib(tree).encode()


def whole(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _moment(content: list[Any], kind: Any) -> Any:
    text, fold, zone = content
    return kind.fromisoformat(text).replace(fold=fold, tzinfo=_zone(zone))


def _zone(zone: Any) -> tzinfo | None:
    if zone is None:
        return None
    if isinstance(zone, str):
        return ZoneInfo(zone)
    offset = timedelta(*zone[:3])
    return timezone(offset, *zone[3:]) if zone[3:] or offset else timezone.utc


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": lambda v: bytes.fromhex(v).decode("utf-8", "surrogatepass"),
    "int": lambda v: int(v, 16),
    "num": float,
    "dt": lambda v: _moment(v, datetime),
    "time": lambda v: _moment(v, time),
    "date": date.fromisoformat,
    "td": lambda v: timedelta(*v),
    "uuid": UUID,
    "dec": Decimal,
    "bytes": bytes.fromhex,
}
_COLLECTIONS: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "fset": frozenset}


def untag(tree: Any, types: dict[str, type]) -> Any:
    if is_list(tree):
        return _untag_items(tree, types)
    if type(tree) is not dict:
        return tree
    node = cast("dict[str, Any]", tree)
    if TAG not in node:
        return _untag_values(node, types)
    tag, content = node[TAG], node["v"]
    if tag in _READERS:
        return _READERS[tag](content)
    if tag in _COLLECTIONS:
        return _COLLECTIONS[tag](_untag_items(content, types))
    if tag == "map":
        return {untag(key, types): untag(item, types) for key, item in content}
    if tag == "esc":
        return _untag_values(content, types)
    return _rebuild(tag, node["t"], untag(content, types), types)


def _untag_items(items: list[Any], types: dict[str, type]) -> list[Any]:
    for index, item in enumerate(items):
        if type(item) is dict or type(item) is list:
            items[index] = untag(item, types)
    return items


def _untag_values(node: dict[str, Any], types: dict[str, type]) -> dict[str, Any]:
    for key, item in node.items():
        if type(item) is dict or type(item) is list:
            node[key] = untag(item, types)
    return node


def _rebuild(tag: str, name: str, content: Any, types: dict[str, type]) -> Any:
    if name not in types:
        raise ValueError(f"type {name!r} is not registered here; pass it in types=")
    return rebuilt(tag, types[name], content)
