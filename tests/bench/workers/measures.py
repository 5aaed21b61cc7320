"""The measures, the same for all subjects."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from .crowd import Tally, rush
from .subject import Subject, context_of, messages_of

_SMALL = 1000


def one_caller(subject: Subject, *, size: int, count: int) -> float:
    """Seconds for one save by a lone caller."""
    context = context_of(size)
    subject.save("warm", context)
    began = time.perf_counter()
    for number in range(count):
        subject.save(f"r{number}", context)
    return (time.perf_counter() - began) / count


def threads(subject: Subject, *, workers: int, seconds: float) -> float:
    """Saves per second of threads that share the subject."""
    return rush(subject, context_of(_SMALL), workers, time.time(), seconds).done / seconds


def tasks(subject: Subject, *, workers: int, seconds: float) -> float:
    """Saves per second of tasks on one event loop."""
    return asyncio.run(_tasks(subject, workers, seconds))


async def _tasks(subject: Subject, workers: int, seconds: float) -> float:
    context, tally = context_of(_SMALL), Tally()
    end = time.time() + seconds

    async def work(number: int) -> None:
        while (began := time.time()) < end:
            await subject.asave(f"r{number}", context)
            tally.note(began, end)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(workers)))
    return tally.done / seconds


def worst_wait(subject: Subject, *, workers: int, begin: float, seconds: float) -> float:
    """The longest that one save took, in seconds, among threads that begin together."""
    return rush(subject, context_of(_SMALL), workers, begin, seconds).worst


def fill(subject: Subject, *, runs: int) -> float:
    """Seconds to write many runs."""
    began = time.perf_counter()
    subject.fill(runs, context_of(_SMALL))
    return time.perf_counter() - began


def load(subject: Subject, *, runs: int, count: int) -> float:
    """Seconds to read the newest context of a random run."""
    chosen = [random.randrange(runs) for _ in range(count)]
    subject.load(0)
    began = time.perf_counter()
    for run in chosen:
        subject.load(run)
    return (time.perf_counter() - began) / count


def first_call(subject: Subject, *, count: int) -> float:
    """Seconds for one call under a key of its own."""
    subject.first_call("warm")
    began = time.perf_counter()
    for number in range(count):
        subject.first_call(f"k{number}")
    return (time.perf_counter() - began) / count


def repeated_call(subject: Subject, *, count: int) -> float:
    """Seconds for one call whose result is recorded."""
    for number in range(count):
        subject.first_call(f"k{number}")
    began = time.perf_counter()
    for number in range(count):
        subject.repeated_call(f"k{number}")
    return (time.perf_counter() - began) / count


def growth(subject: Subject, *, hops: int, whole: bool) -> float:
    """Seconds for a run whose history grows by four messages a hop."""
    history = [message for hop in range(hops) for message in messages_of(hop)]
    began = time.perf_counter()
    for hop in range(hops):
        seen = 4 * (hop + 1)
        subject.grow("r", history[:seen], history[seen - 4 : seen], whole=whole)
    return time.perf_counter() - began


MEASURES: dict[str, Callable[..., float]] = {
    measure.__name__: measure
    for measure in (one_caller, threads, tasks, worst_wait, fill, load, growth, first_call, repeated_call)
}
