"""Pydantic's models, where the application has it: out as plain values, and back equal, or refused.

By the names of their fields, not by alias, and without computed fields: an alias is for the outer world, and what is
computed is not given. A model that does not come back equal is refused where it is enqueued: a SecretStr masks itself
when it is written, and an excluded field is not there.
"""

from collections.abc import Callable
from typing import Any, NoReturn


def as_plain(model: Any, refuse: Callable[[str], NoReturn]) -> object:
    """Return what a model travels as."""
    plain: object = model.model_dump(mode="json", by_alias=False, round_trip=True)
    if not hasattr(type(model), "model_validate"):
        return plain
    try:
        same = validated(type(model), plain) == model
    except ValueError:
        same = False
    if not same:
        refuse(
            f"is a {type(model).__name__[:64]} that would not come back equal; has it masked or excluded fields?"
        )
    return plain


def validated(kind: Any, plain: object) -> Any:
    """Build a model from what it travelled as, or from what another language wrote by alias."""
    try:
        return kind.model_validate(plain, by_alias=True, by_name=True)
    except TypeError:
        # Before pydantic 2.11, which does not know the two words.
        return kind.model_validate(plain)
