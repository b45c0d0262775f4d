"""A few hundred calls with any content: accepted values come back equal and run, and the others are refused by name."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from orchestrator.errors import DatabaseUnavailable, EnqueueRefused, PayloadRefused
from tests.fuzz import functions, values
from tests.fuzz.enqueue_ways import EDITS, WAYS, Edit, Way
from tests.fuzz.refusals import by_name
from tests.fuzz.task_run import Shop, opened

# The same each time: a check must not turn red by luck (`make fuzz` is where luck is wanted).
SETTINGS = settings(
    max_examples=120,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

# Of a failing call with 200,000 characters in it.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    """A shop on the test's database, for one call after the other."""
    with opened(database_url) as shop:
        yield shop


@SETTINGS
@given(way=WAYS, does=values.endings)
def test_accepted_values_come_back_equal_and_others_are_refused_by_name(
    shop: Shop, way: Way, does: Any
) -> None:
    """For each value, each way to enqueue, and each end of the attempt."""
    shop.live(way, does)


def test_each_function_answers_or_refuses_any_argument(shop: Shop) -> None:
    """Each function that a role may call, with any value that its arguments' types allow, and more."""
    calls = functions.calls(functions.callable_ones(shop.hand), functions.shelf(shop.hand))

    SETTINGS(given(calls)(shop.call))()


@settings(SETTINGS, max_examples=60)
@given(edit=EDITS, does=values.endings)
def test_no_content_of_a_task_breaks_a_claim(shop: Shop, edit: Edit, does: Any) -> None:
    """Not even an owner's UPDATE, which no grant and few checks stand in the way of."""
    shop.edit(edit, does)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (EnqueueRefused("the queue is empty", sqlstate="OR006"), "EnqueueRefused"),
        (PayloadRefused("payload", "is nan"), "PayloadRefused"),
        (EnqueueRefused("invalid input syntax for type integer", sqlstate="22P02"), None),
        (EnqueueRefused(""), "EnqueueRefused"),
        (DatabaseUnavailable(), None),
        (ValueError("tags"), None),
        (KeyError("queue"), None),
    ],
)
def test_a_refusal_has_a_name_of_ours(error: Exception, name: str | None) -> None:
    """Whatever else comes out of a call is a fault."""
    assert name == by_name(error)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("SELECT orchestrator.enqueue('')", "OR006"),
        ("SELECT orchestrator.enqueue('mail', '{', '')", "22P02, no text of its type"),
        ("INSERT INTO orchestrator.settings (oldest_code, only_row) VALUES (1, false)", None),
        ("INSERT INTO orchestrator.types (name) VALUES ('mail')", None),
        ("SELECT orchestrator.nothing()", None),
    ],
)
def test_a_constraint_or_an_unknown_function_is_no_name(shop: Shop, statement: str, name: str | None) -> None:
    """The server's own words for a mistake of ours."""
    with pytest.raises(psycopg.Error) as caught:
        shop.hand.execute(statement.encode())

    assert name == by_name(caught.value)
