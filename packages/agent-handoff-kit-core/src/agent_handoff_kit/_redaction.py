"""The user's hook in front of everything that a relay stores."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

from agent_handoff_kit._kinds import type_of
from agent_handoff_kit._tagged_read import MAX_DEPTH

_UNCHANGING = frozenset({str, int, float, bool, bytes, type(None)})
_COLLECTIONS: dict[type, Callable[[Any], Any]] = {list: list, tuple: tuple, set: set, frozenset: frozenset}


def redacted(value: Any, redact: Callable[[Any], Any] | None) -> Any:
    """What the hook makes of a copy of the value; the value itself without a hook."""
    return value if redact is None else redact(duplicate(value, 0))


def duplicate(value: Any, depth: int) -> Any:
    """A copy that can be edited in place; what cannot be copied, such as a lock, is shared."""
    kind = type_of(value)
    # Nesting beyond this is refused when the value is written.
    if kind in _UNCHANGING or depth > MAX_DEPTH:
        return value
    if kind is dict:
        return {key: duplicate(item, depth + 1) for key, item in cast("dict[Any, Any]", value).items()}
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](duplicate(item, depth + 1) for item in value)
    for make in (copy.deepcopy, copy.copy):
        try:
            return make(value)
        except Exception:
            continue
    return value
