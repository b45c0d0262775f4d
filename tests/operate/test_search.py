"""Each filter finds the same as a model in Python, in hostile data, and no input becomes SQL."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator.operate import Search, filters, find, search
from orchestrator.operate.filters import Condition, Fault
from orchestrator.task.status import FINISHED, Status
from tests.conftest import migrated_database
from tests.schema.rows import put
from tests.worker.running import value

NAMES = [
    "mail", "MAIL", "mail.welcome", "mail_welcome", "mailXwelcome", "50%", "50x", "a\\b", "ab", "it's",
    'say "x"',
    "'; DROP TABLE orchestrator.tasks; --", "%(statuses)s", "{}", "$1", "naïve", "日本", "a b", "%", "_", "\\",
    "\u202e",
]  # fmt: skip
PAYLOADS: list[dict[str, Any]] = [
    {}, {"user_id": 42}, {"user_id": "42"}, {"user_id": 42.0}, {"user_id": 4.2e1}, {"user_id": None},
    {"user_id": True},
    {"user_id": [42]}, {"user_id": {"id": 42}}, {"user": {"id": 42, "name": "O'Neil"}},
    {"user": [{"id": 1}, {"id": 2}]},
    {"a.b": {"c=d": 1}}, {'say "x"': "y"}, {"": 1}, {"0": "zero"}, {"user": "%"}, {"user": "'; SELECT 1 --"},
    {"user": "ü\u2028"}, {"user": {}}, {"user": []}, {"big": 10**30}, {"user": "null"},
    {"deep": {"er": {"est": [[[7]]]}}},
]  # fmt: skip
PATHS = [
    "user_id", "user", "user.id", "user.name", "user.0.id", "user.1.id", "user.-1.id", '"a.b"."c=d"', '"say ""x"""',
    "0", "big", "deep.er.est", "deep.er.est.0.0.0", "user_id.0", "missing", "user_id.id",
]  # fmt: skip
VALUES = [
    "42", '"42"', "42.0", "4.2e1", "null", "true", "[42]", '{"id": 42}', "O'Neil", '"O\'Neil"', "1", "2", "7",
    "[[[7]]]",
    "zero", "%", "'; SELECT 1 --", "ü\u2028", "{}", "[]",
    str(10**30), '"null"', "y", "NaN", "", "{bad",
]  # fmt: skip
NOW = datetime(2026, 5, 1, tzinfo=UTC)
WORKERS = [UUID("00c0ffee-0000-4000-8000-000000000001"), UUID("00c0ffee-0000-4000-8000-0000000000ff")]


@dataclass(frozen=True)
class Row:
    """A planted task."""

    id: int
    status: Status
    queue: str
    type: str
    key: str | None
    tags: tuple[str, ...]
    payload: Any
    error: dict[str, Any] | None
    at: datetime
    worker: UUID | None


@pytest.fixture(scope="module")
def planted_tasks(
    administrator: psycopg.Connection, server_url: str, template_database: str
) -> Iterator[tuple[psycopg.Connection, list[Row]]]:
    """One database for all these tests, because none of them changes it."""

    with (
        migrated_database(administrator, server_url, template_database) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        yield connection, list(planted(connection))


def planted(connection: psycopg.Connection) -> Iterator[Row]:
    """Add a task for each name and each payload, in all statuses, over four days."""
    for day in range(5):
        connection.execute("SELECT orchestrator.ensure_partition(%s)", [(NOW - timedelta(days=day)).date()])
    statuses = list(Status)
    for number in range(len(NAMES) * 4):
        name, status = NAMES[number % len(NAMES)], statuses[number % len(statuses)]
        at = NOW - timedelta(hours=number)
        error = [
            None,
            {"class": name, "message": f"cannot read '{name}' {number}"},
            {"class": "E"},
            {"message": name},
        ]
        row = Row(
            0, status, NAMES[(number * 7) % len(NAMES)], name, None if number % 3 else name,
            tuple(NAMES[: number % 4]), PAYLOADS[number % len(PAYLOADS)], error[number % 4], at,
            WORKERS[number % 2] if status not in ("pending", "scheduled", "blocked") else None,
        )  # fmt: skip
        columns: dict[str, Any] = {"finished_at" if status in FINISHED else "created_at": at}
        if row.worker is not None:
            columns["worker_id"] = row.worker
        task_id = put(
            connection, status, type=row.type, queue=row.queue, idempotency_key=row.key, tags=list(row.tags),
            payload=Jsonb(row.payload), error=None if row.error is None else Jsonb(row.error), **columns,
        )  # fmt: skip
        yield replace(row, id=task_id)


def found(connection: psycopg.Connection, search: Search) -> list[int]:
    return [task.id for task in find.page(connection, search, after=None, most=1000).tasks]


def expected(ids: Iterable[int]) -> list[int]:
    return sorted(ids, reverse=True)


def error_class(row: Row) -> str:
    return str((row.error or {}).get("class", ""))


def matches(pattern: str, text: str | None) -> bool:
    """Match `*` in a simple way."""
    regex = ".*".join(map(re.escape, pattern.split("*")))
    return text is not None and re.fullmatch(regex, text, re.DOTALL) is not None


def at_path(payload: Any, path: tuple[str, ...]) -> Any:
    """Follow a path like jsonb's #>; `...` if it does not exist."""
    for step in path:
        if isinstance(payload, dict) and step in payload:
            payload = payload[step]
        elif (
            isinstance(payload, list)
            and re.fullmatch(r"-?\d+", step)
            and -len(payload) <= int(step) < len(payload)
        ):
            payload = payload[int(step)]
        else:
            return ...
    return payload


def same(left: Any, right: Any) -> bool:
    """Compare like jsonb: true is not 1, and 42 is 42.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return (type(left) is type(right) and left == right) or (
        isinstance(left, int | float) and isinstance(right, int | float) and left == right
    )


def test_names_mean_themselves_and_a_star_any_text(
    planted_tasks: tuple[psycopg.Connection, list[Row]],
) -> None:
    """Quotes, %, _ and backslashes are plain characters in queue, type, key and error class."""
    connection, rows = planted_tasks
    for word in [*NAMES, "mail*", "*", "*%", "a\\*", "*'*", "_*", "nothing*"]:
        asked: list[tuple[Search, Callable[[Row], str | None]]] = [
            (Search(queues=(word,)), lambda row: row.queue),
            (Search(types=(word,)), lambda row: row.type),
            (Search(keys=(word,)), lambda row: row.key),
            (Search(error_classes=(word,)), error_class),
        ]
        for search_for, of in asked:
            wanted = expected(row.id for row in rows if matches(word, of(row)))
            assert wanted == found(connection, search_for), search_for


def test_values_of_a_filter_are_alternatives_and_filters_all_hold(
    planted_tasks: tuple[psycopg.Connection, list[Row]],
) -> None:
    """Any of the queues, exact or by pattern; and the type; and every tag."""
    connection, rows = planted_tasks
    search = Search(queues=("mail", "a*"), types=("*a*",), tags=("mail", "MAIL"), statuses=tuple(Status)[:5])

    wanted = expected(
        row.id
        for row in rows
        if (
            (row.queue == "mail" or row.queue.startswith("a"))
            and "a" in row.type
            and {"mail", "MAIL"} <= set(row.tags)
            and row.status in tuple(Status)[:5]
        )
    )
    assert wanted == found(connection, search)


@pytest.mark.parametrize("status", list(Status))
def test_a_status_finds_its_tasks(
    planted_tasks: tuple[psycopg.Connection, list[Row]], status: Status
) -> None:
    """In any table."""
    connection, rows = planted_tasks

    assert expected(row.id for row in rows if row.status == status) == found(
        connection, Search(statuses=(status,))
    )


def test_tags_are_compared_whole(planted_tasks: tuple[psycopg.Connection, list[Row]]) -> None:
    """A tag may contain a star."""
    connection, rows = planted_tasks
    for word in [*NAMES, "*"]:
        assert expected(row.id for row in rows if word in row.tags) == found(connection, Search(tags=(word,)))


def test_a_payload_path_finds_the_json_value(planted_tasks: tuple[psycopg.Connection, list[Row]]) -> None:
    """A number is no text, null is a value, and a path may lead through arrays and keys with dots."""
    connection, rows = planted_tasks
    # Every path with every second value, in turns: each pair costs a plan over all the days.
    for place, path in enumerate(PATHS):
        for text in VALUES[place % 2 :: 2]:
            condition = filters.condition(f"payload.{path}={text}")
            meant = json.loads(condition.value)

            wanted = expected(row.id for row in rows if same(at_path(row.payload, condition.path), meant))
            assert wanted == found(connection, Search(payload=(condition,))), (path, text)


def test_ages_are_of_the_end_or_of_the_beginning(planted_tasks: tuple[psycopg.Connection, list[Row]]) -> None:
    """For finished tasks, for others, and for both."""
    connection, rows = planted_tasks
    for statuses in [
        (),
        (Status.PENDING,),
        (Status.COMPLETED, Status.DEAD_LETTER),
        (Status.PENDING, Status.CANCELLED),
    ]:
        for hours in (0, 1, 30, 60, 200):
            moment = NOW - timedelta(hours=hours)
            before, since = Search(statuses=statuses, before=moment), Search(statuses=statuses, since=moment)

            of_status = [row for row in rows if row.status in (statuses or Status)]
            assert expected(row.id for row in of_status if row.at < moment) == found(connection, before)
            assert expected(row.id for row in of_status if row.at >= moment) == found(connection, since)


def test_a_worker_is_found_by_the_beginning_of_its_id_or_by_its_host(
    planted_tasks: tuple[psycopg.Connection, list[Row]],
) -> None:
    """A word that cannot be an id is a host's name."""
    connection, rows = planted_tasks
    first, second = WORKERS
    connection.execute(
        "INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity)"
        " VALUES (%s, '50%%', 1, '0', '{}', 1) ON CONFLICT DO NOTHING",
        [second],
    )
    for given, whose in [
        (str(first), {first}), (str(first).upper(), {first}), ("00c0ffee", {first, second}),
        ("00c0ffee-0000-4000-8000-00000000000", {first}), ("00c0fffe", set()), ("50%", {second}), ("5*", set()),
        ("' OR true --", set()),
    ]:  # fmt: skip
        wanted = expected(row.id for row in rows if row.worker in whose)
        assert wanted == found(connection, Search(worker=given)), given


def test_an_error_is_found_by_a_part_of_its_message(
    planted_tasks: tuple[psycopg.Connection, list[Row]],
) -> None:
    """In upper or lower case, without patterns."""
    connection, rows = planted_tasks
    for word in ["CANNOT READ", "%", "_", "\\", "'mail'", "日本", ".*", "* "]:
        wanted = expected(
            row.id for row in rows if word.lower() in (row.error or {}).get("message", "").lower()
        )
        assert wanted == found(connection, Search(error_text=word)), word


def test_a_fault_is_found_by_type_class_and_normalised_message(
    planted_tasks: tuple[psycopg.Connection, list[Row]],
) -> None:
    """As in the list of failures."""
    connection, rows = planted_tasks

    for name in ("mail", "it's"):
        fault = Fault(
            name, name, value(connection, "SELECT orchestrator.normalised(%s)", f"cannot read '{name}' 1")
        )
        wanted = expected(
            row.id for row in rows if row.type == name and (row.error or {}).get("class") == name
        )
        assert wanted == found(connection, Search(fault=fault))


HOSTILE = [
    "'; DROP TABLE orchestrator.tasks; --", "' OR '1'='1", '" OR ""="', "\\'; SELECT 1", "%(statuses)s", "%s",
    "%%", "{}",
    "{condition}", "$1", "/*", "--", ");", "\u0027", "\ud83d\ude00",
]  # fmt: skip


@pytest.mark.parametrize("word", HOSTILE)
def test_no_input_is_sql(planted_tasks: tuple[psycopg.Connection, list[Row]], word: str) -> None:
    """Through every filter: nothing wrong is found, and all tasks stay."""
    connection, rows = planted_tasks
    word = word.encode("utf-16", "surrogatepass").decode("utf-16")
    everywhere = [
        Search(queues=(word, word + "*")), Search(types=(word, word + "*")), Search(tags=(word,)),
        Search(keys=(word, word + "*")), Search(error_classes=(word, "x" + word + "*")), Search(error_text=word + "!"),
        Search(payload=(Condition((word,), json.dumps(word)),)), Search(worker=word),
        Search(fault=Fault(word, word, word)),
    ]  # fmt: skip
    for asked in everywhere:
        of_that_name = {row.id for row in rows if word in (row.queue, row.type, row.key, *row.tags)}
        of_that_name |= {
            row.id for row in rows for name in (row.queue, row.type, row.key or "") if name.startswith(word)
        }
        classes = {row.id for row in rows if (row.error or {}).get("class") == word}
        assert set(found(connection, asked)) <= of_that_name | classes

    assert len(rows) == find.count(connection, Search()).count


def test_pages_follow_one_another_without_gap_or_repetition(
    planted_tasks: tuple[psycopg.Connection, list[Row]],
) -> None:
    """With any size of a page; the last page is marked as the last."""
    connection, rows = planted_tasks
    for size in (1, 7, len(rows), 1000):
        seen: list[int] = []
        after: int | None = None
        while True:
            page = find.page(connection, Search(), after=after, most=size)
            seen += [task.id for task in page.tasks]
            if page.after is None:
                break
            after = page.after
        assert expected(row.id for row in rows) == seen


def test_an_export_has_every_task_once(
    planted_tasks: tuple[psycopg.Connection, list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest first, page by page, and no more than requested."""
    connection, rows = planted_tasks
    monkeypatch.setattr(find, "EXPORT_PAGE", 7)

    everything = [row[0] for row in find.export(connection, Search(), most=None)]
    some = [row[0] for row in find.export(connection, Search(), most=10)]

    assert sorted(row.id for row in rows) == everything
    assert everything[:10] == some


def test_a_count_that_takes_long_is_an_estimate(
    planted_tasks: tuple[psycopg.Connection, list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond its limit it returns the planner's estimate, and says so."""
    connection, rows = planted_tasks
    exact = find.count(connection, Search(types=("mail*",)))
    monkeypatch.setattr(find, "COUNT_MAX", 3)
    estimate = find.count(connection, Search())

    assert (True, sum(row.type.startswith("mail") for row in rows)) == (exact.exact, exact.count)
    assert not estimate.exact
    assert estimate.count > 3


def test_only_the_leaves_of_the_right_days_are_searched(
    planted_tasks: tuple[psycopg.Connection, list[Row]],
) -> None:
    """A status names the leaves, an age the days, and no other table is read."""

    connection, _ = planted_tasks
    wanted = Search(statuses=(Status.COMPLETED,), since=NOW - timedelta(days=1), before=NOW)
    statement, values = search.estimate(wanted)
    plan = json.dumps(connection.execute(statement, values, prepare=False).fetchone())

    assert {"tasks_done_20260430"} == set(re.findall(r"tasks_(?:live|dead|done_\d+)(?=\")", plan))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("payload.a", "has no value"),
        ("payload.=1", "empty step"),
        ("payload.a..b=1", "empty step"),
        ('payload."a=1', "empty step"),
        ("queue=mail", "is no condition on the payload"),
        ("payload.a=\0", "NUL"),
        ("payload.a=1e999999", "no number"),
        ("payload.a=[1e-20000]", "no number"),
        ("payload.a=1e" + "9" * 30, "no number"),
        ('payload.a="\\u0000"', "NUL"),
        ("payload." + "a." * 70 + "b=1", "nested deeper"),
    ],
)
def test_a_condition_that_cannot_be_parsed_is_reported(word: str, message: str) -> None:
    """With the right form."""
    with pytest.raises(ValueError, match=message):
        filters.condition(word)


def test_ages_and_statuses_are_read_as_people_write_them() -> None:
    """Durations, times with and without a zone; dead for dead_letter."""
    assert NOW - timedelta(hours=2) == filters.moment("2h", now=NOW)
    assert NOW == filters.moment("2026-05-01", now=NOW + timedelta(days=1))
    assert NOW == filters.moment("2026-05-01T02:00:00+02:00", now=NOW)
    assert [Status.DEAD_LETTER] * 3 == [
        filters.status(word) for word in ("dead", "Dead-Letter", " dead_letter")
    ]
    for wrong in ("yesterday", "-2h", "99999999999w", "2026-13-01"):
        with pytest.raises(ValueError, match="is no age"):
            filters.moment(wrong, now=NOW)
    with pytest.raises(ValueError, match="did you mean dead_letter"):
        filters.status("dead_leter")
