"""From a payload's plain values to what a handler's annotations say.

A dataclass, a struct, a pydantic model, a date or an enum travels as JSON and arrives as what it was. What an
annotation names that nobody here can build (a class of the user's own) arrives as the plain value.
"""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Hints = Mapping[str, Any]


def hints_of(function: Callable[..., Any], *, without: str | None) -> Hints:
    """Return the annotation of each parameter that says something about its value."""
    try:
        found = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        # An annotation that only a type checker can resolve: then all arrive as they travelled.
        return {}
    parameters = inspect.signature(function).parameters
    return {
        name: hint
        for name, hint in found.items()
        if name in parameters and name != without and hint is not Any and is_buildable(hint)
    }


def is_buildable(hint: Any) -> bool:
    """Tell whether msgspec understands an annotation at all."""
    try:
        msgspec.json.Decoder(hint, dec_hook=build)
    except TypeError:
        return False
    return True


def typed(arguments: Mapping[str, Any], hints: Hints) -> dict[str, Any]:
    """Convert each argument as its annotation says; TypeError names the one that does not fit."""
    return {
        name: fitted(name, value, hints[name]) if name in hints else value
        for name, value in arguments.items()
    }


def fitted(name: str, value: Any, hint: Any) -> Any:
    try:
        return msgspec.convert(value, hint, str_keys=True, dec_hook=build)
    except NotImplementedError:
        return value
    except msgspec.ValidationError as error:
        raise TypeError(f"{name}: {error}") from error
    except Exception as error:
        # A constructor or a validator of the user's. Its text may hold the value, so its class has to do.
        raise TypeError(f"{name}: {hint_name(hint)} raised {type(error).__name__}") from error


def hint_name(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)


def build(kind: Any, value: Any) -> Any:
    """Build what msgspec does not know: a pydantic model, where the user has it."""
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError(kind)
    try:
        return validate(value)
    except ValueError as error:
        raise ValueError(without_input(error)) from None


def without_input(error: ValueError) -> str:
    """Say what pydantic found, and where, but not the value it found: that is payload."""
    list_errors = getattr(error, "errors", None)
    if list_errors is None:
        return type(error).__name__
    found = list_errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in found)
