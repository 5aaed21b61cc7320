"""Judging a state before the next agent may have it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_handoff_kit._annotations import Fitting
from agent_handoff_kit._callables import is_async
from agent_handoff_kit._kinds import is_typed_dict
from agent_handoff_kit._shapes import adapter_for, validated

Check = Callable[[Any], Any]
LAMBDA = "<lambda>"


@dataclass
class Verdict:
    """The outcome of one judgement.

    Args:
        missing: required keys the state has not got.
        reasons: every objection of the schema and the checks.
    """

    missing: list[Any] = field(default_factory=lambda: [])
    reasons: list[str] = field(default_factory=lambda: [])

    @property
    def ok(self) -> bool:
        """True when nothing is missing and nothing was objected to."""
        return not self.missing and not self.reasons


def judge(
    state: Mapping[Any, Any], required_keys: Iterable[Any], schema: Any = None, checks: Sequence[Check] = ()
) -> Verdict:
    """Judge a state and collect everything that is wrong with it.

    Args:
        state: the application state.
        required_keys: keys that must be present.
        schema: a pydantic model, dataclass or TypedDict the state must satisfy.
        checks: callables that give None or True, or a reason to refuse.

    Returns:
        The verdict.

    Raises:
        TypeError: when the schema is of no known kind, or a check is async.
        Exception: whatever a check itself raises.
    """
    verdict = Verdict([key for key in required_keys if not _has(state, key)])
    if schema is not None:
        verdict.reasons.extend(_schema_reasons(schema, state))
    for check in checks:
        answer = check(state)
        if inspect.isawaitable(answer):
            _close(answer)
            raise _async_check(check)
        if answer is None or answer is True:
            continue
        verdict.reasons.append(f"check {check_name(check)} failed" if answer is False else str(answer))
    return verdict


def require_usable(schema: Any, checks: Iterable[Any]) -> None:
    """Refuse a schema or a check that nothing can be judged by.

    Args:
        schema: a pydantic model, dataclass or TypedDict, or None.
        checks: what should be callables.

    Raises:
        TypeError: naming the one that cannot be used, and why.
    """
    if schema is not None and not (isinstance(schema, type) and _describes(schema)):
        raise TypeError(f"schema must be a pydantic model, a dataclass or a TypedDict class, not {schema!r}")
    for check in checks:
        if not callable(check):
            raise TypeError(f"a check is a callable of the state, not {check!r}")
        if is_async(check):
            raise _async_check(check)


def _describes(schema: Any) -> bool:
    return dataclasses.is_dataclass(schema) or is_typed_dict(schema) or hasattr(schema, "model_validate")


def require_keys(keys: Iterable[Any]) -> tuple[Any, ...]:
    """The required keys, each of which could be a key.

    Args:
        keys: what the caller gave.

    Raises:
        TypeError: they are one text, or one of them cannot be a key of a dict.
    """
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"required_keys is the text {keys!r}; give a list of keys, [{keys!r}]")
    given = tuple(keys)
    for key in given:
        try:
            hash(key)
        except TypeError as error:
            raise TypeError(f"the required key {key!r} cannot be a key of a dict: {error}") from None
    return given


def _has(state: Mapping[Any, Any], key: Any) -> bool:
    try:
        return key in state
    except TypeError:  # A key whose stored form is no key.
        return False


def _async_check(check: Any) -> TypeError:
    return TypeError(
        f"check {check_name(check)} is async; a check gives its answer at once, so make it a plain function"
    )


def _close(answer: Any) -> None:
    # So that it does not warn that nobody awaited it.
    if inspect.iscoroutine(answer):
        answer.close()


def check_name(obj: Any) -> str:
    """Name a check or schema in a way that is the same in the next process.

    Args:
        obj: a function, method, class, partial or callable object.

    Returns:
        Its name, a partial's inner name, or the name of its class.
    """
    name = getattr(obj, "__name__", None)
    if isinstance(name, str):
        return name
    inner = getattr(obj, "func", None)
    return check_name(inner) if callable(inner) else type(obj).__name__


def _schema_reasons(schema: Any, state: Mapping[Any, Any]) -> list[str]:
    require_usable(schema, ())
    adapter = adapter_for(schema)
    return _plain_reasons(schema, state) if adapter is None else _pydantic_reasons(adapter, schema, state)


def _pydantic_reasons(adapter: Any, schema: Any, state: Mapping[Any, Any]) -> list[str]:
    try:
        validated(schema, adapter, {key: item for key, item in state.items() if isinstance(key, str)})
    except ValueError as exc:
        errors: Any = getattr(exc, "errors", None)
        if errors is None:
            return [f"{check_name(schema)}: {exc}"]
        found: list[Any] = errors(include_url=False, include_input=False, include_context=False)
        return [f"{'.'.join(map(str, e['loc'])) or check_name(schema)}: {e['msg']}" for e in found]
    except AssertionError as exc:
        # A dataclass runs the user's __post_init__ here. Like pydantic, only what says "unfit" is an objection.
        return [f"{check_name(schema)}: {exc}"]
    return []


def _plain_reasons(schema: Any, state: Mapping[Any, Any]) -> list[str]:
    fitting = Fitting()
    fitting.fit(schema, dict(state))
    return fitting.objections
