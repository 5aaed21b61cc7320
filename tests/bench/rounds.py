"""Rounds in turn: whatever else the machine does meets all contenders alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

_ROUNDS = 3


def in_turn(measures: Mapping[str, Callable[[int], float]], rounds: int = _ROUNDS) -> dict[str, float]:
    """The median figure of each contender. A measure is given the number of the round."""
    figures: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(rounds):
        for name, measure in measures.items():
            figures[name].append(measure(number))
    return {name: statistics.median(found) for name, found in figures.items()}
