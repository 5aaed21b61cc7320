"""The session of a run that is resumed: it ends up as if the run had never stopped."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_handoff_kit.errors import StoreDamaged
from agent_handoff_kit.openai_adapter.plain import as_plain


class SessionProxy:
    """Stands before a session and drops, in order, appends that the session already has.

    Args:
        session: the user's session.
        seen: what the run may see of it: the items that were there at the resume point.
        ahead: the items after them, which an earlier attempt appended.
        captured: the receiver's input at the resume point; given once for the history, so that the SDK takes none
            of it for something to append.
    """

    def __init__(self, session: Any, seen: list[Any], ahead: list[Any], captured: list[Any] | None) -> None:
        self._session = session
        self._captured = captured
        self._seen = list(seen)
        self._ahead = list(ahead)
        self._replaying = bool(ahead)
        # The SDK looks at the signatures, which say whether the session wants the run's context.
        self.get_items: Callable[..., Any] = _like(session.get_items, self._get_items)
        self.add_items: Callable[..., Any] = _like(session.add_items, self._add_items)
        self.pop_item: Callable[..., Any] = _like(session.pop_item, self._pop_item)
        self.clear_session: Callable[..., Any] = _like(session.clear_session, self._clear_session)

    @classmethod
    async def open(cls, session: Any, count: int | None, captured: list[Any] | None) -> SessionProxy:
        """The proxy for a run whose resume point saw ``count`` items; all there are, at its start.

        Raises:
            StoreDamaged: the session holds fewer.
        """
        items = list(await session.get_items())
        if count is None:
            return cls(session, items, [], captured)
        if len(items) < count:
            raise _damaged(session, f"it holds {len(items)} items, and the run had seen {count}")
        return cls(session, items[:count], items[count:], captured)

    @property
    def count(self) -> int:
        """How many items the run has seen in the session."""
        return len(self._seen)

    if not TYPE_CHECKING:

        @property
        def __class__(self) -> Any:
            # The SDK treats some kinds of session in ways of their own.
            return type(self._session)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def _get_items(self, limit: int | None = None, **more: Any) -> list[Any]:
        if self._captured is not None:
            captured, self._captured = self._captured, None
            return list(captured)
        if not self._replaying:
            found: list[Any] = await self._session.get_items(limit, **more)
            return found
        return list(self._seen) if limit is None else self._seen[len(self._seen) - limit :] if limit else []

    async def _add_items(self, items: list[Any], **more: Any) -> None:
        fresh = list(items)
        while fresh and self._ahead:
            self._drop(fresh.pop(0))
        self._replaying = bool(self._ahead)
        if fresh:
            await self._session.add_items(fresh, **more)
            self._seen.extend(fresh)

    def _drop(self, item: Any) -> None:
        if not _is_same(item, self._ahead[0]):
            reason = f"item {len(self._seen)} is not what the run appended there before: {_short(self._ahead[0])}"
            raise _damaged(self._session, reason)
        self._seen.append(self._ahead.pop(0))

    async def _pop_item(self, **more: Any) -> Any:
        if self._replaying and self._seen:
            self._ahead.insert(0, self._seen.pop())
            return self._ahead[0]
        if self._seen:
            self._seen.pop()
        return await self._session.pop_item(**more)

    async def _clear_session(self, **more: Any) -> None:
        self._seen, self._ahead, self._replaying = [], [], False
        await self._session.clear_session(**more)


def _like(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def method(*args: Any, **kwargs: Any) -> Any:
        return await replacement(*args, **kwargs)

    return method


def _is_same(one: Any, other: Any) -> bool:
    return _short(one, None) == _short(other, None)


def _short(item: Any, length: int | None = 120) -> str:
    """An item without what a backend may add or leave out."""
    told = {key: value for key, value in as_plain(item).items() if value is not None and key != "id"}
    return json.dumps(told, sort_keys=True, default=str)[:length]


def _damaged(session: Any, reason: str) -> StoreDamaged:
    return StoreDamaged(f"session {getattr(session, 'session_id', session)!r}", "resume", reason)
