"""What a disk holds after the power went: rebuilt from the shim's log of writes, for every moment of a run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SECTOR = 512


class Event(NamedTuple):
    """One line of the log: ``w``rite, ``t``runcate, ``s``ync, ``u``nlink or ``m``ark."""

    kind: str
    path: str
    offset: int
    data: bytes


@dataclass
class File:
    """A file on the disk: what is safe, and what was written since its last sync."""

    safe: bytearray = field(default_factory=bytearray)
    waiting: list[Event] = field(default_factory=list[Event])


@dataclass
class Disk:
    """Files under their names, as a program sees them and as the directory on the disk knows them."""

    seen: dict[str, File] = field(default_factory=dict[str, File])
    listed: dict[str, File] = field(default_factory=dict[str, File])
    marks: list[str] = field(default_factory=list[str])

    def apply(self, event: Event) -> None:
        """Let one event happen."""
        match event.kind:
            case "m":
                self.marks.append(event.path)
            case "u":
                self.seen.pop(event.path, None)
            case "s" if event.path not in self.seen:
                self._sync_folder(event.path)
            case "s":
                file = self.seen[event.path]
                file.safe, file.waiting = changed(file, lambda: True), []
            case _:
                self.seen.setdefault(event.path, File()).waiting.append(event)

    def _sync_folder(self, folder: str) -> None:
        inside = [path for path in {*self.seen, *self.listed} if os.path.dirname(path) == folder]
        for path in inside:
            if path in self.seen:
                self.listed[path] = self.seen[path]
            else:
                self.listed.pop(path, None)

    def after_power_loss(self, survives: Callable[[], bool]) -> dict[str, bytes]:
        """The files that are there after the power went, ``survives`` asked for each unsynced sector and name."""
        names = {path: file for path, file in self.listed.items() if path in self.seen or not survives()}
        names |= {path: file for path, file in self.seen.items() if path in self.listed or survives()}
        return {path: bytes(changed(file, survives)) for path, file in names.items()}


def changed(file: File, survives: Callable[[], bool]) -> bytearray:
    """The content with those waiting sectors that survive."""
    content = bytearray(file.safe)
    for event in file.waiting:
        if event.kind == "t":
            if survives():
                _resize(content, event.offset)
            continue
        for start in range(0, len(event.data), SECTOR):
            if survives():
                part = event.data[start : start + SECTOR]
                _resize(content, max(len(content), event.offset + start + len(part)))
                content[event.offset + start : event.offset + start + len(part)] = part
    return content


def events(log: Path) -> Iterator[Event]:
    """The events in a log of the shim."""
    with log.open("rb") as file:
        while head := file.readline():
            kind, length, offset, size = head.split()
            path = file.read(int(length)).decode()
            yield Event(kind.decode(), path, int(offset), file.read(int(size)))


def images(log: Path, start: dict[str, bytes], seed: int) -> Iterator[tuple[int, list[str], str, dict[str, bytes]]]:
    """For each event: its number, the marks so far, the model's name, and the files after the power went.

    *drop* loses all that was not synced; *tear* keeps each unsynced sector and name with probability one half.
    """
    disk = Disk()
    for path, content in start.items():
        disk.seen[path] = disk.listed[path] = File(bytearray(content))
    dice = random.Random(seed)
    for number, event in enumerate(events(log), 1):
        disk.apply(event)
        yield number, list(disk.marks), "drop", disk.after_power_loss(lambda: False)
        yield number, list(disk.marks), "tear", disk.after_power_loss(lambda: dice.random() < 0.5)


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))
