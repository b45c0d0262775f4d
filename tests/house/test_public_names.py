"""The public API has few names, and all of them exist."""

import orchestrator

PUBLIC_NAMES_MAX = 15


def too_many(names: list[str]) -> list[str]:
    """Return the names beyond the limit, which a newcomer can still read at a glance."""
    return names[PUBLIC_NAMES_MAX:]


def test_the_package_has_at_most_fifteen_public_names() -> None:
    """A sixteenth name belongs in a subpackage, or replaces another name."""
    assert [] == too_many(list(orchestrator.__all__))


def test_every_public_name_exists_and_is_explained() -> None:
    """`help()` of each public name has a text."""
    assert [] == [name for name in orchestrator.__all__ if not getattr(orchestrator, name).__doc__]


def test_a_sixteenth_name_is_found() -> None:
    """Fifteen names pass."""
    names = [f"name_{number}" for number in range(1, 17)]

    assert ["name_16"] == too_many(names)
    assert [] == too_many(names[:15])
