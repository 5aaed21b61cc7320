"""Message histories as append-only logs: what is new in a list, and what was stored before it."""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent_handoff_kit.serialization import all_plain, encode_messages
from agent_handoff_kit.store.records import EMPTY_CHAIN, LogHead, chain

_RUNS = 128
_SNAPSHOT_BYTES = 8 * 2**20


class Snapshot(NamedTuple):
    """A message list as it was last seen: marshalled, and how many bytes its messages take in the store."""

    items: bytes
    size: int


@dataclass(frozen=True)
class Log:
    """The messages to store with a checkpoint, and the log that they extend.

    ``size`` counts the bytes of all messages that were given, stored before or not.
    """

    lines: tuple[bytes, ...]
    extends: LogHead | None
    length: int
    digest: bytes
    size: int
    snapshot: Snapshot | None


class LogHeads:
    """The end of each run's log as this process last saw it, with a snapshot of its list.

    The snapshot is marshal's form of a list of plain JSON values, made to be compared and never loaded: it
    differs wherever value or exact type differ, and the comparison runs at the speed of memcmp. Lists with
    other values have none: marshal does not tell one buffer type from another.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[LogHead, Snapshot | None]] = OrderedDict()

    def get(self, run_id: str) -> tuple[LogHead | None, Snapshot | None]:
        return self._known.get(run_id, (None, None))

    def put(self, run_id: str, head: LogHead, snapshot: Snapshot | None) -> None:
        if snapshot is not None and len(snapshot.items) > _SNAPSHOT_BYTES:
            snapshot = None
        self._known[run_id] = (head, snapshot)
        self._known.move_to_end(run_id)
        while len(self._known) > _RUNS:
            self._known.popitem(last=False)

    def forget(self, run_id: str) -> None:
        self._known.pop(run_id, None)


def whole_list(messages: Sequence[Any], head: LogHead | None, snapshot: Snapshot | None, **options: Any) -> Log:
    """The log for a whole list: its tail if it extends what is stored, else a log of its own."""
    items = _marshalled(messages)
    if head is not None and snapshot is not None and items is not None and items.startswith(snapshot.items):
        tail = messages[head.length :]
        lines = encode_messages(tail, **options)
        return _extended(head, lines, snapshot.size + _size(lines), items if all_plain(tail) else None)
    if not all_plain(messages):
        items = None
    lines = encode_messages(messages, **options)
    if head is not None and chain(EMPTY_CHAIN, lines[: head.length]) == head.digest:
        return _extended(head, lines[head.length :], _size(lines), items)
    return _started(lines, items)


def appended(new: Sequence[Any], head: LogHead | None, **options: Any) -> Log:
    """The log for new messages only; without a log before them they start one."""
    lines = encode_messages(new, **options)
    if head is None:
        return _started(lines, None)
    return _extended(head, lines, _size(lines), None)


def _started(lines: list[bytes], items: bytes | None) -> Log:
    size = _size(lines)
    return Log(tuple(lines), None, len(lines), chain(EMPTY_CHAIN, lines), size, _snapshot(items, size))


def _extended(head: LogHead, lines: list[bytes], size: int, items: bytes | None) -> Log:
    digest = chain(head.digest, lines)
    return Log(tuple(lines), head, head.length + len(lines), digest, size, _snapshot(items, size))


def _snapshot(items: bytes | None, size: int) -> Snapshot | None:
    return None if items is None else Snapshot(items, size)


def _size(lines: list[bytes]) -> int:
    return sum(map(len, lines))


def _marshalled(messages: Sequence[Any]) -> bytes | None:
    """The marshalled items without the list's header, so that a longer list starts with a shorter one's."""
    try:
        return marshal.dumps(list(messages), 2)[5:]
    except ValueError:
        return None
