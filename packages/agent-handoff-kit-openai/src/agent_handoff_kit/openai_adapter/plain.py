"""Plain data of unknown shape, with a type to go on with."""

from __future__ import annotations

from typing import Any, TypeGuard


def as_dict(value: Any) -> dict[str, Any] | None:
    """The value if it is a dict."""
    return value if _is_dict(value) else None


def as_list(value: Any) -> list[Any] | None:
    """The value if it is a list."""
    return value if _is_list(value) else None


def as_plain(item: Any) -> dict[str, Any]:
    """An item of the SDK as a dict of what was set; one that is a dict already as it is."""
    given = as_dict(item)
    dumped: dict[str, Any] = (
        item.model_dump(mode="json", exclude_unset=True, warnings=False) if given is None else given
    )
    return dumped


def _is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
