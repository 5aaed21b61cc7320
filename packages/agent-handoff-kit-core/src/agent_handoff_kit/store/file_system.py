"""Where a database file may live: SQLite's WAL needs memory shared by all who open the file."""

from __future__ import annotations

import os
import stat
import warnings

from agent_handoff_kit.errors import StoreUnavailable

_NETWORK = ("nfs", "cifs", "smb", "9p", "drvfs", "vboxsf", "ceph", "lustre", "afs", "fuse.sshfs", "fuse.s3fs")


def locate(path: str) -> str:
    """The file's one name, whatever link or relative path leads to it: its side files are named after it.

    Raises:
        StoreUnavailable: it can be no database file, or one that goes by several names.
    """
    if not path:
        raise StoreUnavailable(path, "open", "the path is empty")
    if "\0" in path:
        raise StoreUnavailable(repr(path), "open", "the path contains a NUL character")
    try:
        real = os.path.realpath(path)
        _check_kind(real)
    except (OSError, ValueError) as error:
        raise StoreUnavailable(path, "open", f"unable to open: {error}") from error
    return real


def _check_kind(path: str) -> None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # What is not there may be made; what cannot be looked at is reported when it is opened.
        return
    if stat.S_ISDIR(found.st_mode):
        raise StoreUnavailable(path, "open", "it is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnavailable(path, "open", "it is no regular file")
    if found.st_nlink > 1:
        # SQLite names the write-ahead log after the file: under each name there would be another one.
        reason = f"it has {found.st_nlink} names (hard links), of which each would get a log of its own; copy it"
        raise StoreUnavailable(path, "open", reason)


def refuse_network_file_system(path: str) -> None:
    """Raise StoreUnavailable on a network file system; warn on an unknown FUSE type.

    Two hosts that write one WAL file lose each other's commits without an error.
    """
    kind = _type_of(os.path.dirname(path))
    if kind.startswith(_NETWORK):
        raise StoreUnavailable(path, "open", f"it lies on {kind}; pass allow_network_fs=True if one host alone uses it")
    if kind.startswith("fuse"):
        warnings.warn(f"{path} lies on {kind}; use it from one host alone", stacklevel=4)


def _type_of(folder: str) -> str:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as table:
            mounts = [_mount(line) for line in table]
    except OSError:
        return ""
    real = os.path.realpath(folder)
    fitting = [mount for mount in mounts if real == mount[0] or real.startswith(mount[0].rstrip("/") + "/")]
    return max(fitting, key=lambda mount: len(mount[0]))[1] if fitting else ""


def _mount(line: str) -> tuple[str, str]:
    before, _, after = line.partition(" - ")
    point = before.split(" ")[4].encode().decode("unicode_escape", errors="replace")
    return point, after.split(" ")[0]
