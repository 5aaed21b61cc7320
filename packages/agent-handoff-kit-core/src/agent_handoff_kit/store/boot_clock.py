"""The clock of leases: seconds since the machine started, which no correction of the wall clock moves."""

from __future__ import annotations

import time
import uuid
from functools import lru_cache


def boot_time() -> float:
    """Seconds since the machine started, time in suspend included where the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Names this start of the machine: under another name, every owner of before is dead."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        # No name to be had: the time of the start, to the minute, so that small corrections do not matter.
        started = round((time.time() - time.monotonic()) / 60)
        return str(uuid.UUID(int=started))
