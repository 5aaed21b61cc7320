"""Telling plain JSON from what needs tags, level by level and without a step of Python for each value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from operator import contains, methodcaller
from typing import Any

from agent_handoff_kit._tagged_read import INT_MAX, INT_MIN, MAX_DEPTH, TAG

_VALUES = methodcaller("values")
_PLAIN = {str, bool, type(None), int, float, dict, list}


def portability(values: Sequence[Any], limit: int) -> bool | None:
    """Look at values that are to be written as JSON.

    Args:
        values: each stands for itself, at the top.
        limit: how many items they may have, all containers together. One that has many parents is written once
            for each of them, and counts so.

    Returns:
        Whether every encoder writes them with the same characters; None if they are not JSON as they stand, or
        if the full walk must report on something.
    """
    portable = True
    for _ in range(MAX_DEPTH + 1):
        kinds = set(map(type, values))
        if not kinds <= _PLAIN:
            return None
        if int in kinds and not _are_short(_of(int, values)):
            return None
        if float in kinds:
            floats = _of(float, values)
            if not all(map(math.isfinite, floats)):
                return None
            portable = portable and all(map(spelled_alike, set(floats)))
        dicts, lists = _of(dict, values) if dict in kinds else [], _of(list, values) if list in kinds else []
        if not dicts and not lists:
            return portable
        limit -= len(dicts) + len(lists) + sum(map(len, dicts)) + sum(map(len, lists))
        if limit < 0 or not _have_plain_keys(dicts):
            return None
        values = [*chain.from_iterable(map(_VALUES, dicts)), *chain.from_iterable(lists)]
    return None


def spelled_alike(value: float) -> bool:
    """Whether every encoder writes this float with the same characters: those that need no exponent."""
    return 1e-4 <= value < 1e16 or -1e16 < value <= -1e-4 or value == 0


def _of(kind: type, values: Iterable[Any]) -> list[Any]:
    return [one for one in values if type(one) is kind]


def _are_short(numbers: list[int]) -> bool:
    return min(numbers) >= INT_MIN and max(numbers) <= INT_MAX


def _have_plain_keys(dicts: list[dict[Any, Any]]) -> bool:
    return set(map(type, chain.from_iterable(dicts))) <= {str} and not any(map(contains, dicts, repeat(TAG)))
