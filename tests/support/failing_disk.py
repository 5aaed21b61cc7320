"""Run the billing pipeline on a disk that fails, at each write and sync in turn; print what became of it."""

from __future__ import annotations

import errno
import functools
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from agent_handoff_kit.errors import HandoffKitError
from tests.support.billing import Place, check, resume, work
from tests.support.crashing import Point, run_and_die
from tests.support.disk import SYNC, WRITE, Disk

KINDS = {
    "ENOSPC in write": (WRITE, errno.ENOSPC),
    "EIO in write": (WRITE, errno.EIO),
    "EIO in fsync": (SYNC, errno.EIO),
    "ENOSPC in fsync": (SYNC, errno.ENOSPC),
}


def failing(place: Place, which: int, at: int, error: int, lasting: bool, point: Point) -> Any:
    """The work on a disk that fails; the error that came out, or None."""
    Disk().fail(which, at, error, from_then_on=lasting)
    try:
        work(place, point)
    except HandoffKitError as raised:
        return type(raised).__name__
    return None


def counting(place: Place, point: Point) -> Any:
    """How many writes and syncs the work makes on a sound disk."""
    disk = Disk()
    disk.fail(-1, 0, 0)
    work(place, point)
    return disk.calls(WRITE), disk.calls(SYNC)


def one_case(folder: Path, which: int, at: int, error: int, lasting: bool) -> tuple[str, str]:
    """What came out of the failing process, and what its run became on a sound disk."""
    folder.mkdir()
    place = Place(folder, "raise")
    outcome = run_and_die(functools.partial(failing, place, which, at, error, lasting))
    assert outcome.error is None, outcome.error
    return str(outcome.value), check(place, resume(place))


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as scratch:
        whole = Path(scratch) / "whole"
        whole.mkdir()
        counts = run_and_die(functools.partial(counting, Place(whole, "raise"))).value
        for name, (which, error) in KINDS.items():
            for lasting in (False, True):
                said: Counter[str] = Counter()
                became: Counter[str] = Counter()
                for at in range(1, counts[which] + 1):
                    case = Path(scratch) / f"{name}-{lasting}-{at}"
                    text, end = one_case(case, which, at, error, lasting)
                    said[text] += 1
                    became[end] += 1
                print(f"{name}|{'lasting' if lasting else 'once'}|{counts[which]}|{dict(became)}|{dict(said)}")


if __name__ == "__main__":
    main()
