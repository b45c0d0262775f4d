"""Alembic's own command: it does the same as `orchestrator migrate`, with clear messages."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from alembic import command as alembic_command
from alembic.config import Config, main
from alembic.util import CommandError
from psycopg import sql
from psycopg.conninfo import make_conninfo

from orchestrator.errors import SchemaError
from orchestrator.schema import compatibility, migrate
from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS
from tests.schema import catalog
from tests.schema.rows import one
from tests.tiers import long
from tests.worker.processes import ran, surroundings

Ran = subprocess.CompletedProcess[str]
HEAD = migrate.head()
NEXT = f"{int(HEAD) + 1:04}"
REVISION = f'''"""Made up by a test."""

revision = "{{name}}"
down_revision = "{HEAD}"


def upgrade() -> None: ...


def downgrade() -> None: ...
'''


def alembic(*words: str, url: str | None = None, ini: Path = REPOSITORY / "alembic.ini", **more: str) -> Ran:
    """Run `alembic` with a configuration file, from another folder."""
    return ran(command, "-c", str(ini), *words, env=surroundings(url, **more), cwd=Path("/"))


def command(*words: str) -> None:
    """Do what the program `alembic` does."""
    main(argv=list(words), prog="alembic")


def done(ran: Ran) -> str:
    """Return the output of a command that succeeded."""
    assert 0 == ran.returncode, ran.stderr
    return ran.stdout


def refusal(ran: Ran) -> str:
    """Return the sentence of a command that failed."""
    assert 0 != ran.returncode, ran.stdout
    assert "Traceback" not in ran.stderr, ran.stderr
    # Alembic wraps its sentences.
    return " ".join(ran.stdout.split())


def everything(url: str) -> list[object]:
    """Return what the catalogs say about the whole schema, grants included."""
    with psycopg.connect(url, autocommit=True) as connection:
        return catalog.everything(connection)


def ini_beside(migrations: Path, **settings: str) -> Path:
    """Write an ini like a user's: the repository's, with more settings."""
    lines = "".join(f"{name.replace('__', '.')} = {value}\n" for name, value in settings.items())
    ini = migrations.parent / "alembic.ini"
    ini.write_text((REPOSITORY / "alembic.ini").read_text().replace("[alembic]\n", f"[alembic]\n{lines}"))
    return ini


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the migrations, which `migrate` uses."""
    folder = tmp_path / "migrations"
    shutil.copytree(REPOSITORY / "migrations", folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(migrate, "scripts", lambda: folder)
    return folder


@pytest.fixture
def other_role(administrator: psycopg.Connection) -> Iterator[str]:
    """A role that may only log in."""
    name = f"stranger_{uuid4().hex[:12]}"
    administrator.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield name
    administrator.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_alembic_makes_the_same_database_as_migrate(database_url: str, empty_database_url: str) -> None:
    """`alembic upgrade head` makes the same objects and the same grants, and prints each revision."""
    output = done(alembic("upgrade", "head", url=empty_database_url))

    assert everything(database_url) == everything(empty_database_url)
    first, *_, last = output.splitlines()
    assert first.startswith("up to 0001: The foundation")
    assert f"the database had no schema and is at {HEAD} now" == last


def test_a_second_upgrade_grants_again(database_url: str, connection: psycopg.Connection) -> None:
    """As with `orchestrator migrate`: a role that was missing gets its rights the next time."""
    before = everything(database_url)
    connection.execute("REVOKE ALL ON orchestrator.tasks FROM orchestrator_reader")
    assert before != everything(database_url)

    output = done(alembic("upgrade", "head", url=database_url))

    assert before == everything(database_url)
    assert f"the database was at {HEAD} and is at {HEAD} now\n" == output


def test_the_script_it_prints_has_the_grants(database_url: str, empty_database_url: str) -> None:
    """`alembic upgrade head --sql` prints what `orchestrator migrate --sql` prints."""
    script = done(alembic("upgrade", "head", "--sql"))
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(script.encode())

    assert migrate.script().split() == script.split()
    assert everything(database_url) == everything(empty_database_url)


def test_alembic_downgrades_and_upgrades_again(database_url: str) -> None:
    """`alembic downgrade base`, then `upgrade head`: the same database."""
    before = everything(database_url)

    down = done(alembic("downgrade", "base", url=database_url))
    up = done(alembic("upgrade", "head", url=database_url))

    assert "down from 0001: The foundation" in down
    assert f"the database was at {HEAD} and has no schema now" in down
    assert f"the database had no schema and is at {HEAD} now" in up
    assert before == everything(database_url)


@pytest.mark.parametrize(
    "words", ["current", long("history"), "check", long("heads"), "history --indicate-current"]
)
def test_reading_commands_change_nothing(words: str, empty_database_url: str, database_url: str) -> None:
    """They do not make the schema in an empty database either."""
    before = everything(database_url)

    done(alembic(*words.split(), url=database_url))
    alembic(*words.split(), url=empty_database_url)

    assert before == everything(database_url)
    with psycopg.connect(empty_database_url) as connection:
        assert None is one(connection, "SELECT to_regnamespace('orchestrator')")


def test_check_shows_the_revision_of_the_database(database_url: str, empty_database_url: str) -> None:
    """`current`, `history` and `check` answer as usual."""
    assert f"{HEAD} (head)\n" == done(alembic("current", url=database_url))
    assert "" == done(alembic("current", url=empty_database_url))
    assert "(current)" in done(alembic("history", "--indicate-current", url=database_url))
    assert "No new upgrade operations detected.\n" == done(alembic("check", url=database_url))
    assert "not up to date" in refusal(alembic("check", url=empty_database_url))


def test_the_url_of_the_ini_is_the_database(copy: Path, empty_database_url: str, database_url: str) -> None:
    """`sqlalchemy.url` is used, also in SQLAlchemy's form, and overrides the variable."""
    sqlalchemy = empty_database_url.replace("postgresql:", "postgresql+psycopg:").replace("%", "%%")
    ini = ini_beside(copy, sqlalchemy__url=sqlalchemy)

    output = done(alembic("upgrade", "head", ini=ini, url="postgresql://127.0.0.1:1/elsewhere"))

    assert "had no schema" in output
    assert everything(database_url) == everything(empty_database_url)


@pytest.mark.parametrize(
    "words", [("upgrade", "head"), long(("current",)), long(("check",)), long(("downgrade", "base"))]
)
def test_a_url_that_cannot_be_read_is_not_printed(words: tuple[str, ...], copy: Path) -> None:
    """Neither from the ini, where a single % is an error of its own, nor from the variable."""
    output = [
        alembic(*words, url="postgresql://jane:hunter2@[::1/shop"),
        alembic(*words, ini=ini_beside(copy, sqlalchemy__url="postgresql://jane:hunter2@[::1/shop")),
        alembic(*words, ini=ini_beside(copy, sqlalchemy__url="postgresql://jane:hunter2%40x@here/shop")),
        alembic(*words, ini=ini_beside(copy, sqlalchemy__url="postgresql://jane:%(hunter2)s@here/shop")),
    ]

    assert ["cannot be read" in refusal(ran) for ran in output] == [True] * 4
    assert [] == [
        ran for ran in output if "hunter2" in ran.stdout + ran.stderr or "jane" in ran.stdout + ran.stderr
    ]


@pytest.mark.parametrize("words", [("upgrade", "head"), long(("current",)), ("check",)])
def test_a_failure_is_one_sentence(words: tuple[str, ...]) -> None:
    """No database is named, a setting is wrong, the server does not answer."""
    assert "no database was named: set sqlalchemy.url" in refusal(alembic(*words))
    assert "is not a setting" in refusal(
        alembic(*words, url="postgresql://127.0.0.1:1/shop", ORCHESTRATOR_POOL_SIZ="3")
    )
    away = alembic(*words, url="postgresql://jane:hunter2@127.0.0.1:1/shop")
    assert "cannot connect to 127.0.0.1:1/shop" in refusal(away)
    assert "hunter2" not in away.stdout + away.stderr


def test_a_missing_right_is_one_sentence(other_role: str, empty_database_url: str, database_url: str) -> None:
    """With advice, from both commands; also for a database that the role may not read."""
    fresh, full = (make_conninfo(url, user=other_role) for url in (empty_database_url, database_url))

    for output in (
        refusal(alembic("upgrade", "head", url=fresh)),
        refusal(alembic("current", url=full)),
        refusal(alembic("upgrade", "head", url=full)),
    ):
        assert "permission denied" in output
        assert "the role that owns the schema" in output
    with pytest.raises(SchemaError, match=r"permission denied for database .* the role that owns the schema"):
        migrate.upgrade(fresh)
    with pytest.raises(SchemaError, match=r"permission denied for .* the role that owns the schema"):
        migrate.state(full)


def test_an_ended_session_is_one_sentence(empty_database_url: str, copy: Path) -> None:
    """Like any other error of the server: no change stays."""
    first = copy / "versions" / "0001_foundation" / "0_first.sql"
    first.write_text("SELECT 1 / 0")
    output = refusal(alembic("upgrade", "head", url=empty_database_url, ini=ini_beside(copy)))
    first.write_text("SELECT pg_terminate_backend(pg_backend_pid())")
    ended = refusal(alembic("upgrade", "head", url=empty_database_url, ini=ini_beside(copy)))

    assert "division by zero" in output
    assert "terminating connection" in ended
    assert (None, HEAD) == migrate.state(empty_database_url)


def test_a_new_revision_gets_the_next_number(copy: Path, database_url: str) -> None:
    """`alembic revision -m …` needs no database. Both commands then upgrade to it."""
    ini = ini_beside(copy)
    done(alembic("revision", "-m", "add a thing", ini=ini))

    assert (copy / "versions" / f"{NEXT}_add_a_thing.py").is_file()
    output = done(alembic("upgrade", "head", ini=ini, url=database_url))
    assert [
        f"up to {NEXT}: add a thing", f"the database was at {HEAD} and is at {NEXT} now"
    ] == output.splitlines()  # fmt: skip
    migrate.move(database_url, to="base")
    migrate.upgrade(database_url)
    assert (NEXT, NEXT) == migrate.state(database_url)


def test_a_revision_is_not_undone(copy: Path, database_url: str) -> None:
    """Both commands refuse it in the same sentence. A downgrade to `base` removes everything, whatever the revision."""
    ini = ini_beside(copy)
    done(alembic("revision", "-m", "add a thing", ini=ini))
    migrate.upgrade(database_url)
    before = everything(database_url)
    sentence = (
        f"a revision is not undone, so the database does not go down to {HEAD}: code of the previous release"
    )

    with pytest.raises(SchemaError, match=sentence):
        migrate.move(database_url, to=HEAD)
    with pytest.raises(SchemaError, match=sentence):
        migrate.downgrade(database_url, to=HEAD)
    # In this process, where `copy` counts as ours.
    config = Config(ini)
    config.set_main_option("sqlalchemy.url", database_url.replace("%", "%%"))
    with pytest.raises(CommandError, match=sentence):
        alembic_command.downgrade(config, "-1")

    with pytest.raises(CommandError, match=sentence):
        alembic_command.downgrade(config, f"{NEXT}:{HEAD}", sql=True)

    assert (NEXT, NEXT) == migrate.state(database_url)
    assert before == everything(database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(done(alembic("downgrade", f"{NEXT}:base", "--sql", ini=ini)).encode())
    assert (None, NEXT) == migrate.state(database_url)


def test_a_revision_keeps_to_the_numbers(copy: Path, database_url: str) -> None:
    """An explicit id is refused; --autogenerate uses the numbers, too."""
    ini = ini_beside(copy)

    output = refusal(alembic("revision", "-m", "x", "--rev-id", "ab12", ini=ini))
    done(alembic("revision", "--autogenerate", "-m", "look", ini=ini, url=database_url))

    assert f"a revision's id is its number: the next is {NEXT}" in output
    assert (copy / "versions" / f"{NEXT}_look.py").is_file()


def test_an_id_that_is_no_number_has_its_place_in_the_chain(copy: Path, database_url: str) -> None:
    """For a revision that was made elsewhere, with Alembic's own ids: `migrate` upgrades to it, and a worker
    starts."""
    (copy / "versions" / "ab12cd34ef56_made_up.py").write_text(REVISION.format(name="ab12cd34ef56"))

    assert migrate.is_behind(HEAD)
    migrate.move(database_url, to="head")

    assert ("ab12cd34ef56", "ab12cd34ef56") == migrate.state(database_url)
    assert not migrate.is_behind("ab12cd34ef56")
    assert migrate.goes_down("ab12cd34ef56", "base")
    with psycopg.connect(database_url, autocommit=True) as connection:
        compatibility.require(connection)


def test_a_revision_of_a_newer_version_is_left_alone(
    database_url: str, connection: psycopg.Connection
) -> None:
    """This version cannot migrate from a revision that it does not know, and says so."""
    connection.execute("UPDATE orchestrator.alembic_version SET version_num = '9000'")

    with pytest.raises(SchemaError, match="at revision 9000, which this version does not know"):
        migrate.move(database_url, to="head")
    assert "9000" in refusal(alembic("upgrade", "head", url=database_url))
    assert not migrate.is_behind("9000")


def test_a_stamp_runs_nothing(empty_database_url: str) -> None:
    """`alembic stamp` writes only the revision, and no grants."""
    assert f"is at {HEAD} now" in done(alembic("stamp", "head", url=empty_database_url))

    with psycopg.connect(empty_database_url) as connection:
        assert None is one(connection, "SELECT to_regclass('orchestrator.tasks')")


def test_without_a_step_nothing_is_removed(empty_database_url: str) -> None:
    """A database that was never migrated, with another's schema of our name: it keeps its tables."""
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA orchestrator")
        connection.execute("CREATE TABLE orchestrator.workers AS SELECT 1 AS n")

        migrate.move(empty_database_url, to="base")
        done(alembic("stamp", "base", url=empty_database_url))
        done(alembic("stamp", "base", url=empty_database_url))

        assert 1 == one(connection, "SELECT n FROM orchestrator.workers")


def test_a_program_may_bring_its_connection(empty_database_url: str, database_url: str) -> None:
    """Alembic's recipe for programs, `attributes["connection"]`: it prints nothing, and the grants are made."""
    program = (
        "import sys, sqlalchemy; from alembic import command; from alembic.config import Config;"
        f"config = Config({str(REPOSITORY / 'alembic.ini')!r});"
        "engine = sqlalchemy.create_engine(sys.argv[1]);"
        "connection = engine.connect(); transaction = connection.begin();"
        "config.attributes['connection'] = connection; command.upgrade(config, 'head'); transaction.commit()"
    )
    sqlalchemy = empty_database_url.replace("postgresql:", "postgresql+psycopg:")

    ran = subprocess.run(
        [sys.executable, "-c", program, sqlalchemy],
        env=dict(os.environ), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    assert "" == done(ran)
    assert everything(database_url) == everything(empty_database_url)
