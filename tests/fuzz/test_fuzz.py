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

# The same calls in each run: a check must not fail at random. `make fuzz` makes random calls.
SETTINGS = settings(
    max_examples=120,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

# Hypothesis gives this warning for a failing call that contains 200,000 characters.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    """A shop on the test's database, for all calls of the test."""
    with opened(database_url) as shop:
        yield shop


@SETTINGS
@given(way=WAYS, does=values.endings)
def test_accepted_values_come_back_equal_and_others_are_refused_by_name(
    shop: Shop, way: Way, does: Any
) -> None:
    """This holds for each value, each way to enqueue, and each end of the attempt."""
    shop.live(way, does)


def test_each_function_answers_or_refuses_any_argument(shop: Shop) -> None:
    """Each function that a role may call gets any values of its arguments' types, and invalid ones."""
    calls = functions.calls(functions.callable_ones(shop.operator), functions.shelf(shop.operator))

    SETTINGS(given(calls)(shop.call))()


@settings(SETTINGS, max_examples=60)
@given(edit=EDITS, does=values.endings)
def test_no_content_of_a_task_breaks_a_claim(shop: Shop, edit: Edit, does: Any) -> None:
    """This holds even after an UPDATE by the table's owner, which no grant and few checks restrict."""
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
def test_only_the_projects_own_errors_count_as_a_refusal(error: Exception, name: str | None) -> None:
    """Any other error of a call is a fault."""
    assert name == by_name(error)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("SELECT orchestrator.enqueue('')", "OR006"),
        ("SELECT orchestrator.enqueue('mail', '{', '')", "22P02, text that is no value of its type"),
        ("INSERT INTO orchestrator.settings (oldest_code, only_row) VALUES (1, false)", None),
        ("INSERT INTO orchestrator.types (name) VALUES ('mail')", None),
        ("SELECT orchestrator.nothing()", None),
    ],
)
def test_a_constraint_or_an_unknown_function_is_no_refusal(
    shop: Shop, statement: str, name: str | None
) -> None:
    """Such an error of the server shows a mistake in the project's code."""
    with pytest.raises(psycopg.Error) as caught:
        shop.operator.execute(statement.encode())

    assert name == by_name(caught.value)
