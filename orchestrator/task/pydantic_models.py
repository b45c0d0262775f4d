"""Write Pydantic models, if the application uses them, as plain values that come back equal; or refuse them.

Models are written by the names of their fields, not by alias, and without computed fields: an alias is for the outer
world, and a computed field is no input. The enqueue refuses a model that would not come back equal: a SecretStr masks
itself when it is written, and an excluded field is missing.
"""

from collections.abc import Callable
from typing import Any, NoReturn


def as_plain(model: Any, refuse: Callable[[str], NoReturn]) -> object:
    """Return a model as plain values."""
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
    """Build a model from its plain values, or from those that another language wrote by alias."""
    try:
        return kind.model_validate(plain, by_alias=True, by_name=True)
    except TypeError:
        # Before pydantic 2.11, which does not know the two parameters.
        return kind.model_validate(plain)
