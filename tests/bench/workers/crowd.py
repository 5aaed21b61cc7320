"""Threads that save as fast as they can for a while."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from .subject import Context, Subject


@dataclass
class Tally:
    """What a crowd did: how many saves ended in time, and the longest that one took."""

    done: int = 0
    worst: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, began: float, end: float) -> None:
        """Count a save that has just ended; a late one counts only as a wait."""
        now = time.time()
        with self._lock:
            self.done += now <= end
            self.worst = max(self.worst, now - began)


def rush(subject: Subject, context: Context, workers: int, begin: float, seconds: float) -> Tally:
    """Let threads save from ``begin``, by the clock, until the time is over.

    Raises:
        RuntimeError: a save failed.
    """
    tally, end, failures = Tally(), begin + seconds, list[BaseException]()

    def work(number: int) -> None:
        try:
            subject.save(f"warm{number}", context)
            time.sleep(max(0.0, begin - time.time()))
            while (began := time.time()) < end:
                subject.save(f"r{number}", context)
                tally.note(began, end)
        except BaseException as failure:
            failures.append(failure)

    crowd = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    if failures:
        raise RuntimeError(f"{len(failures)} of {workers} threads failed") from failures[0]
    return tally
