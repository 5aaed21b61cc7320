"""Where checkpoints are kept: SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_handoff_kit.store.checkpoints import CheckpointStore
from agent_handoff_kit.store.payloads import Codec

__all__ = ["CheckpointStore", "Codec", "open_store"]


def open_store(url: str | Path, **options: Any) -> CheckpointStore:
    """Open the store that a path or URL names.

    Args:
        url: a path, ``":memory:"`` or ``"sqlite:///path"``.
        options: passed on to ``CheckpointStore``.

    Raises:
        ValueError: the URL names a database that this release does not know.
    """
    text = str(url)
    if text.startswith("sqlite:///"):
        return CheckpointStore(text.removeprefix("sqlite:///"), **options)
    scheme, separator, _ = text.partition("://")
    if separator:
        raise ValueError(f"stores of kind {scheme!r} are not supported; give a path or sqlite:///path")
    return CheckpointStore(url, **options)
