"""Convert a payload's plain values to the types of a handler's annotations.

A dataclass, a struct, a pydantic model, a date or an enum is stored as JSON and arrives as the same type. For another
annotation (a class of the user's own) the handler gets the plain value.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from orchestrator.task import pydantic_models

Hints = Mapping[str, Any]

# Values of these types need no conversion.
AS_THEY_ARE = (int, str, bool, float)
UNRESOLVABLE = (NameError, TypeError, AttributeError)
# msgspec quotes a value in these two messages, and names the place last.
QUOTING = re.compile(r"Invalid (?:enum )?value(?= )")
PLACE = re.compile(r" - at (?:`key` in )?`\$[^`]*`\Z")


def hints_of(function: Callable[..., Any], *, without: str | None) -> Hints:
    """Return the annotation of each parameter whose value has to be checked or converted."""
    found = resolved(function)
    return {
        name: found[name]
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not parameter.VAR_POSITIONAL
        and name in found
        and name != without
        and found[name] is not Any
        and is_buildable(found[name])
    }


def resolved(function: Callable[..., Any]) -> Hints:
    """Resolve the annotations. Skip those that only a type checker can resolve."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except UNRESOLVABLE:
        pass
    found: dict[str, Any] = {}
    for name, written in written_annotations(function).items():
        alone = types.SimpleNamespace(__annotations__={name: written})
        with suppress(*UNRESOLVABLE):
            found |= typing.get_type_hints(alone, globalns=globals_of(function), include_extras=True)
    return found


def written_annotations(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return dict(inspect.unwrap(function).__annotations__)
    except UNRESOLVABLE:  # evaluated when asked for, from Python 3.14 on
        return {}


def globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    names: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    return names


def is_buildable(hint: Any) -> bool:
    """Tell whether msgspec accepts an annotation."""
    try:
        msgspec.json.Decoder(hint, dec_hook=build)
    except TypeError:
        return False
    return True


def typed(arguments: Mapping[str, Any], hints: Hints) -> dict[str, Any]:
    """Convert each argument to its annotation. TypeError names the one that does not fit."""
    return {
        name: fitted(name, value, hints[name]) if name in hints else value
        for name, value in arguments.items()
    }


def fitted(name: str, value: Any, hint: Any) -> Any:
    if type(value) is hint and hint in AS_THEY_ARE:
        return value
    try:
        return msgspec.convert(value, hint, str_keys=True, dec_hook=build)
    except NotImplementedError:
        return value
    except msgspec.ValidationError as error:
        raise TypeError(f"{name}: {without_value(error)}") from None
    except Exception as error:
        # From a constructor or a validator of the user. Its text may hold the value, so name only its class.
        raise TypeError(f"{name}: {hint_name(hint)} raised {type(error).__name__}") from None


def without_value(error: msgspec.ValidationError) -> str:
    """Describe what does not fit, and where, without the value: that is payload."""
    text, cause = str(error), error.__cause__
    if isinstance(cause, Misfit):
        return text
    place = PLACE.search(text)
    where = place[0] if place else ""
    if cause is not None:  # __post_init__ or similar: the text is the user's
        return f"its own check raised {type(cause).__name__}{where}"
    quoting = QUOTING.match(text)
    return f"{quoting[0]}{where}" if quoting else text


def hint_name(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)


class Misfit(ValueError):
    """A model refuses the value. The text does not show the value."""


def build(kind: Any, value: Any) -> Any:
    """Build a type that msgspec does not know: a pydantic model, if pydantic is installed."""
    if not hasattr(kind, "model_validate"):
        raise NotImplementedError(kind)
    try:
        return pydantic_models.validated(kind, value)
    except ValueError as error:
        raise Misfit(without_input(error)) from None


def without_input(error: ValueError) -> str:
    """Describe pydantic's faults by place and name only: their sentences may quote the value."""
    list_errors = getattr(error, "errors", None)
    if list_errors is None:
        return type(error).__name__
    found = list_errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(placed(fault["loc"], fault["type"]) for fault in found)


def placed(steps: tuple[object, ...], kind: str) -> str:
    """Put a fault's place before its name. A fault of the whole value has no place."""
    place = ".".join(str(step)[:64] for step in steps)
    return f"{place}: {kind}" if place else kind
