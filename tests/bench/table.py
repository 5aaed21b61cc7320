"""The table that the bench prints: each figure as a multiple of the bare one of its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BARE, KIT, ORJSON, PUBLISHED = "bare", "kit", "kit + orjson", "0.1.0"

_HEADER = ("what", "bare", KIT, ORJSON, PUBLISHED, "better than 0.1.0", "aim")


@dataclass(frozen=True)
class Row:
    """One measure of all contenders. ``unit`` tells whether more or less of it is better."""

    what: str
    figures: Mapping[str, float]
    unit: str
    aim: str = ""

    def against_bare(self, name: str) -> float:
        """The contender's figure in bare ones."""
        return self.figures[name] / self.figures[BARE]

    def gain(self) -> float:
        """How many times better than 0.1.0 the better of the kit's figures is."""
        best = max if self.more_is_better else min
        kit = best(self.figures[name] for name in (KIT, ORJSON) if name in self.figures)
        old = self.figures[PUBLISHED]
        return kit / old if self.more_is_better else old / kit

    @property
    def more_is_better(self) -> bool:
        return self.unit == "/s"

    def cells(self) -> tuple[str, ...]:
        """The row as text; the bare figure is there for scale."""
        multiples = (f"{self.against_bare(name):.2f}" if name in self.figures else "" for name in _HEADER[2:5])
        gain = f"{self.gain():.1f}" if PUBLISHED in self.figures else ""
        return (self.what, f"{self.figures[BARE]:.4g} {self.unit}", *multiples, gain, self.aim)


@dataclass
class Table:
    """Rows in the order of measuring."""

    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> Row:
        self.rows.append(row)
        return row

    def lines(self) -> list[str]:
        """The table with aligned columns: costs first, then rates."""
        ordered = sorted(self.rows, key=lambda row: row.more_is_better)
        grid = [_HEADER, *(row.cells() for row in ordered)]
        widths = [max(len(cells[column]) for cells in grid) for column in range(len(_HEADER))]
        return ["  ".join(_aligned(cells, widths)) for cells in grid]


def _aligned(cells: tuple[str, ...], widths: list[int]) -> list[str]:
    middle = [cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:-1], strict=True)]
    return [cells[0].ljust(widths[0]), *middle, cells[-1]]
