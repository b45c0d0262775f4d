"""Failures are counted by fault, and an action on a group uses its name."""

from itertools import pairwise

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator.errors import OperationRefused
from orchestrator.operate import Action, bulk, failures
from tests.schema.rows import WORKER, one, put, read


def dead(connection: psycopg.Connection, message: str, *, kind: str = "mail", fault: str = "OSError") -> int:
    return put(connection, "dead_letter", type=kind, error=Jsonb({"class": fault, "message": message}))


def retrying(connection: psycopg.Connection, message: str) -> int:
    """Add a task that waits for its next attempt, with the record of the last one."""
    error = Jsonb({"class": "OSError", "message": message})
    task_id = put(connection, "scheduled", attempt=1, error=error)
    connection.execute(
        "INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, error, worker_id)"
        " VALUES (%s, 1, 'failed', 'default', 'mail', %s, %s)",
        [task_id, error, WORKER],
    )
    return task_id


@pytest.mark.parametrize(
    ("message", "normalised"),
    [
        ("no answer from 10.0.0.1:5432 after 30.5 s", "no answer from <n> after <n> s"),
        ("user 'Ada' not in \"the list\" of `x`", "user <text> not in <text> of <text>"),
        ("it's not there, can't say", "it's not there, can't say"),
        ("it's not 'there'", "it's not <text>"),
        ("task 3f2504e0-4f89-11d3-9a0c-0305e82c3301 lost", "task <uuid> lost"),
        ("object at 0x7f3a9c, sha deadbeef0123", "object at <hex>, sha <hex>"),
        ("cannot open /var/lib/app/7.txt: no", "cannot open <path>: no"),
        (r"cannot open C:\temp\a.txt", "cannot open <path>"),
        ("either/or", "either/or"),
        ("two\n lines\tand   spaces ", "two lines and spaces"),
        ("deadbeef facade", "deadbeef facade"),
        ("日本 5 ü", "日本 <n> ü"),
        ("", ""),
        (None, ""),
    ],
)
def test_a_message_keeps_only_the_common_words(
    connection: psycopg.Connection, message: str | None, normalised: str
) -> None:
    """Numbers, names and places are replaced; words stay."""
    assert normalised == one(connection, "SELECT orchestrator.normalised(%s)", [message])


@pytest.mark.parametrize("piece", ["'", '"', "`", "1", "a1", "/", "\\", "0x", "1.", "~/", " ", "-", "a:\\"])
def test_no_message_is_slow_to_normalise(connection: psycopg.Connection, piece: str) -> None:
    """A megabyte of text that is difficult for a regular expression is done within the timeout."""
    connection.execute("SET statement_timeout = '10s'")

    message = one(connection, "SELECT orchestrator.normalised(repeat(%s, 500000))", [piece])

    assert len(message) <= 200


def test_tasks_with_the_same_fault_are_one_group(connection: psycopg.Connection) -> None:
    """Dead letters and waiting retries have separate counts; the sample is the newest."""
    for number in range(3):
        last = dead(connection, f"host 'h{number}' is away")
    retrying(connection, "host 'h9' is away")
    dead(connection, "host 'h0' is away", kind="video")
    dead(connection, "host 'h0' is away", fault="ValueError")
    put(connection, "dead_letter", error=None)

    found = failures.groups(connection)

    assert 4 == len(found)
    assert ("mail", "OSError", "host <text> is away", 3, 1) == (
        found[0].type, found[0].error_class, found[0].message, found[0].dead_letters, found[0].retrying,
    )  # fmt: skip
    assert found[0].sample_id in (last, last + 1)
    assert found[0].first_seen <= found[0].last_seen
    assert len({group.group_id for group in found}) == 4


def test_the_view_has_the_same_rows(connection: psycopg.Connection) -> None:
    """For psql."""
    dead(connection, "no")

    rows = connection.execute(
        "SELECT group_id, dead_letters, retrying, sample_id FROM orchestrator.failures"
    ).fetchall()

    assert rows == [
        (g.group_id, g.dead_letters, g.retrying, g.sample_id) for g in failures.groups(connection)
    ]


def test_a_requeued_task_no_longer_counts(connection: psycopg.Connection) -> None:
    """Its error is gone, and its recorded attempts do not count."""
    task_id = retrying(connection, "no")
    connection.execute("UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s", [task_id])
    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [task_id])

    assert () == failures.groups(connection)


def test_only_the_newest_are_read(connection: psycopg.Connection) -> None:
    """With any number of failures."""
    for number in range(5):
        dead(connection, f"no {number}")

    assert [2] == [group.dead_letters for group in failures.groups(connection, newest=2)]
    assert () == failures.groups(connection, newest=-1)
    assert 5 == one(connection, "SELECT dead_letters FROM orchestrator.failure_groups(NULL)")


def test_an_action_applies_to_a_whole_group(connection: psycopg.Connection) -> None:
    """Also to tasks older than the list, and to no other group."""
    ids = [dead(connection, f"no {number}") for number in range(5)]
    other = dead(connection, "other")
    waiting = retrying(connection, "no 7")
    name = failures.groups(connection)[0].group_id

    search = failures.group(connection, name[:6].upper()).search
    *_, last = bulk.walk(connection, Action.REQUEUE, search)

    assert 5 == last.done
    assert {"pending"} == {read(connection, task_id, "status") for task_id in ids}
    assert ("dead_letter", "scheduled") == (
        read(connection, other, "status"),
        read(connection, waiting, "status"),
    )


def test_an_unknown_group_is_reported(connection: psycopg.Connection) -> None:
    """So is an ambiguous beginning of a name."""
    for number in range(40):
        dead(connection, "no", kind=f"mail{number}")
    ids = sorted(group.group_id for group in failures.groups(connection))
    first = next(a[0] for a, b in pairwise(ids) if a[0] == b[0])

    for name, message in [
        ("zzz", "there is no group 'zzz'"),
        ("", "there is no group"),
        (first, "several groups"),
    ]:
        with pytest.raises(OperationRefused, match=message):
            failures.group(connection, name)
