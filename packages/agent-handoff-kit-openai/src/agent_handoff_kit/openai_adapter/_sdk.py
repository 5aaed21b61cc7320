"""The only module that imports the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

import agents

from agent_handoff_kit.errors import UnsupportedSDK

FLOOR = (0, 20)

function_tool: Any = agents.function_tool


def require_supported_sdk() -> str:
    """The version of the installed SDK.

    Raises:
        UnsupportedSDK: it is older than 0.20.
    """
    found = str(agents.version.__version__)
    if not is_supported(found):
        raise UnsupportedSDK(found, ">=0.20")
    return found


def is_supported(version: str) -> bool:
    """Whether a version text names 0.20 or a later one."""
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= FLOOR
