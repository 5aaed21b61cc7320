"""What steps run on: a connection, and who this process is among owners."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from agent_handoff_kit.store.owners import Owner


@dataclass(frozen=True)
class Session:
    """A connection of one database together with this process as an owner on it."""

    connection: sqlite3.Connection
    owner: Owner
