"""A new option of a task needs edits in five files; the rest is rendered from them.

The test adds an option and its revision to a copy of the code. The copy enqueues with the option in every way.
"""

import json
from pathlib import Path

from tests.house.edited_copy import NEEDS_IT, REVISION, edit_a_copy, run
from tests.house.revision_rules import faults

FILES_MAX = 6

OPTION = """
OPTIONS += (
    Option(
        name="colour", kind="text", column="colour", meaning="how it is painted", default="'grey'",
        valid_if="{} <> ''", faults=(Fault(when="{} = ''", sentence="'the colour is empty'"),),
    ),
)
"""
EDITS = {
    # The argument in SQL, the member in the JSON of a set, default, bounds, command-line flag, row of the reference.
    "orchestrator/task/columns.py": [
        ("BY_NAME = {", f"{OPTION}\nBY_NAME = {{"),
        ('"trace_context", "tenant"', '"trace_context", "colour", "tenant"'),
    ],
    # The argument of Python's using().
    "orchestrator/enqueue/request.py": [
        ("    trace_context: Mapping[str, str] | None = None\n", "    trace_context: Mapping[str, str] | None = None\n"
         "    colour: str | None = None\n"),
    ],
    # The column.
    f"{REVISION}/1_tables.sql": [("'2s';\n", "'2s';\nALTER TABLE orchestrator.tasks ADD COLUMN colour text;\n")],
    # The number of the revision.
    **NEEDS_IT,
    # The column for SQLAlchemy.
    "orchestrator/schema/tables.py": [
        (
            '    postgresql_partition_by="LIST (status)",\n',
            '    Column("colour", Text),\n    postgresql_partition_by="LIST (status)",\n',
        ),
    ],
}  # fmt: skip

# Runs in the copy: it migrates, enqueues in every way, and prints the results as JSON.
PROGRAM = """
import json, sys
import psycopg
from click.testing import CliRunner
from orchestrator import Orchestrator
from orchestrator.cli import orchestrator as command
from orchestrator.schema import migrate
from tests.docs.reference import python_writers

url = sys.argv[1]
migrate.upgrade(url)
app = Orchestrator(database_url=url)

@app.task(name="paint")
def paint(n):
    pass

with psycopg.connect(url, autocommit=True) as connection:
    def one(query):
        return connection.execute(query).fetchone()[0]

    ids = {
        "enqueue": one("SELECT orchestrator.enqueue('paint', '{}', colour => 'red')"),
        "a set": one('''SELECT id FROM orchestrator.enqueue_many('[{"type": "paint", "colour": "red"}]')'''),
        "alike": one('''SELECT (orchestrator.enqueue_alike('[{}]', '{"type": "paint", "colour": "red"}'))[1]'''),
        "INSERT": one("INSERT INTO orchestrator.tasks (type, colour) VALUES ('paint', 'red') RETURNING id"),
        "Python": paint.using(colour="red").enqueue(n=1).id,
        "Python, a set": paint.using(colour="red").enqueue_many([{"n": 1}, {"n": 2}])[1].id,
        "command": int(CliRunner().invoke(command, ["enqueue", "paint", "--colour", "red", "--url", url]).stdout),
    }
    ids["left out"] = one("SELECT orchestrator.enqueue('paint', '{}')")
    ids["left out of an INSERT"] = one("INSERT INTO orchestrator.tasks (type) VALUES ('paint') RETURNING id")
    ids["left out of a set"] = one('''SELECT id FROM orchestrator.enqueue_many('[{"type": "paint"}]')''')
    colours = {way: one(f"SELECT colour FROM orchestrator.tasks WHERE id = {task_id}") for way, task_id in ids.items()}
    refusals = set()
    for statement in (
        "SELECT orchestrator.enqueue('paint', '{}', colour => '')",
        '''SELECT orchestrator.enqueue_alike('[{}]', '{"type": "paint", "colour": ""}')''',
        "INSERT INTO orchestrator.tasks (type, colour) VALUES ('paint', '')",
    ):
        try:
            connection.execute(statement)
        except psycopg.Error as error:
            refusals.add(error.diag.message_primary.removeprefix("tasks[0]: "))
app.close()
migrate.move(url, to="base")
migrate.move(url, to="head")
print(json.dumps([colours, sorted(refusals), "| how it is painted |" in python_writers()["using options"]("")]))
"""


def test_an_option_is_added_by_few_edits(database_url: str, tmp_path: Path) -> None:
    """Python, SQL, sets and the command line take the new option; column, default, bound and reference row exist. The
    revision spares older code; `base` removes what it made."""
    edit_a_copy(tmp_path, EDITS)
    assert [] == faults(tmp_path / "migrations" / "versions")

    colours, refusals, is_in_reference = json.loads(
        run(tmp_path, "-c", PROGRAM, database_url).splitlines()[-1]
    )

    assert 10 == len(colours)
    assert {way: "grey" if "left out" in way else "red" for way in colours} == colours
    assert ["the colour is empty"] == refusals
    assert is_in_reference
    assert len(EDITS) <= FILES_MAX
