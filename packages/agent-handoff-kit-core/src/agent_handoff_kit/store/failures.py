"""SQLite's errors as the kit's own."""

from __future__ import annotations

import sqlite3

from agent_handoff_kit.errors import StoreBusy, StoreDamaged, StoreError, StoreFull, StoreUnavailable

# Python 3.10 carries no error code, so the text decides; the texts are SQLite's own and stable.
_KINDS: tuple[tuple[str, type[StoreError]], ...] = (
    ("locked", StoreBusy),
    ("busy", StoreBusy),
    ("is full", StoreFull),
    ("malformed", StoreDamaged),
    ("not a database", StoreDamaged),
    ("disk i/o error", StoreUnavailable),
    ("unable to open", StoreUnavailable),
    ("readonly", StoreUnavailable),
)


def is_busy(error: BaseException) -> bool:
    """Whether another connection holds the database, so that nothing happened yet."""
    return isinstance(error, sqlite3.OperationalError) and _kind(error) is StoreBusy


def is_outcome_unknown(error: BaseException) -> bool:
    """Whether a commit that raised this may be in the file all the same (SQLite's ``IOERR``)."""
    return isinstance(error, sqlite3.OperationalError) and "disk i/o error" in str(error).lower()


def translate(error: BaseException, location: str, operation: str) -> BaseException:
    """The kit's error for one of SQLite's, with the cause chained; any other error as it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    ours = _kind(error)(location, operation, str(error))
    ours.__cause__ = error
    return ours


def _kind(error: sqlite3.Error) -> type[StoreError]:
    text = str(error).lower()
    return next((kind for words, kind in _KINDS if words in text), StoreError)
