"""Judging a state before the next agent may have it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_handoff_kit._annotations import Fitting, is_typed_dict
from agent_handoff_kit._shapes import adapter_for, validated

Check = Callable[[Any], Any]


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
        TypeError: when the schema is of no known kind.
        Exception: whatever a check itself raises.
    """
    verdict = Verdict([key for key in required_keys if key not in state])
    if schema is not None:
        verdict.reasons.extend(_schema_reasons(schema, state))
    for check in checks:
        answer = check(state)
        if answer is None or answer is True:
            continue
        verdict.reasons.append(f"check {check_name(check)} failed" if answer is False else str(answer))
    return verdict


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
    known = dataclasses.is_dataclass(schema) or is_typed_dict(schema) or hasattr(schema, "model_validate")
    if not isinstance(schema, type) or not known:
        raise TypeError(f"schema must be a pydantic model, a dataclass or a TypedDict class, not {schema!r}")
    adapter = adapter_for(schema)
    return _plain_reasons(schema, state) if adapter is None else _pydantic_reasons(adapter, schema, state)


def _pydantic_reasons(adapter: Any, schema: Any, state: Mapping[Any, Any]) -> list[str]:
    try:
        validated(adapter, {key: item for key, item in state.items() if isinstance(key, str)})
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
