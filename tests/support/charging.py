"""A tool that charges a card into a ledger file, and processes that call it and die."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_handoff_kit import Relay
from agent_handoff_kit.idempotency import idempotent_tool

DYING = """
import os, signal, sys
from agent_handoff_kit import Relay
from agent_handoff_kit.idempotency import idempotent_tool
relay = Relay(sys.argv[1])
def charge(order, amount=0):
    with open(sys.argv[2], "a") as ledger:
        ledger.write(order + "\\n")
    os.kill(os.getpid(), getattr(signal, sys.argv[3]))
    return "charged"
print(idempotent_tool(relay, "r", key_fn=lambda order, amount=0: order, wait=20)(charge)("O-1"))
"""


CALLER = """
import sys, time
from agent_handoff_kit import Relay
from agent_handoff_kit.idempotency import idempotent_tool
relay = Relay(sys.argv[1])
def charge(order, amount=0):
    time.sleep(0.3)
    with open(sys.argv[2], "a") as ledger:
        ledger.write(order + "\\n")
    return "charged"
print(idempotent_tool(relay, "r", key_fn=lambda order, amount=0: order)(charge)("O-1"))
"""


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines()


def charging(relay: Relay, ledger: Path, result: Any = "charged", **options: Any) -> Callable[..., Any]:
    def charge(order: str, amount: int = 0) -> Any:
        with ledger.open("a") as file:
            file.write(f"{order}\n")
        if isinstance(result, BaseException):
            raise result
        return result

    return idempotent_tool(relay, "r", key_fn=lambda order, amount=0: order, **options)(charge)


def charging_later(relay: Relay, ledger: Path, seconds: float = 0.1, **options: Any) -> Callable[..., Any]:
    async def charge(order: str, amount: int = 0) -> str:
        await asyncio.sleep(seconds)
        with ledger.open("a") as file:
            file.write(f"{order}\n")
        return "charged"

    return idempotent_tool(relay, "r", key_fn=lambda order, amount=0: order, **options)(charge)


def die(path: str, ledger: Path, signal_name: str) -> None:
    command = [sys.executable, "-c", DYING, path, str(ledger), signal_name]
    assert subprocess.run(command, check=False).returncode == -getattr(signal, signal_name)
