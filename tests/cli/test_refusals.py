"""The errors of the command: a sentence, an exit code, and never a traceback."""

from pathlib import Path

import psycopg
import pytest

from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS
from tests.worker.processes import run, worker
from tests.worker.running import value

SHOP = "tests.worker.tasks:app"
# Of ORCHESTRATOR_START_WAIT_SECONDS: a worker does not wait for a server that is away.
NO_WAIT = "0"


def refusal(words: str, url: str | None = None, cwd: Path | None = None, **settings: str) -> tuple[int, str]:
    """Run a command that must fail. Return its exit status and its standard error."""
    done = run(*words.split(), url=url, cwd=cwd or REPOSITORY, **settings)
    assert "Traceback" not in done.stderr, done.stderr
    assert "" == done.stdout
    return done.returncode, done.stderr


AWAY = "cannot connect to 127.0.0.1:1/shop:"
JANE = "postgresql://jane:hunter2@"
NOBODY = "postgresql://nobody@127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("words", "url", "sentences"),
    [
        (f"worker {SHOP}", None, ["no database was named", "ORCHESTRATOR_DATABASE_URL", "embedded:"]),
        (f"worker {SHOP}", f"{JANE}127.0.0.1:1/shop", [AWAY]),
        ("migrate", f"{JANE}127.0.0.1:1/shop", [AWAY]),
        (f"worker {SHOP}", f"{JANE}nowhere.invalid/shop", ["cannot connect to nowhere.invalid/shop:"]),
        (
            f"worker {SHOP}",
            f"{JANE}[::1/shop",
            ["ORCHESTRATOR_DATABASE_URL cannot be read: it is no URL of PostgreSQL", "%40 for @"],
        ),
    ],
    ids=["none is named", "it is away", "also for migrate", "its host has no address", "it cannot be read"],
)
def test_the_database_cannot_be_reached(words: str, url: str | None, sentences: list[str]) -> None:
    """What was wrong and every way out, without the password."""
    code, output = refusal(words, url=url, ORCHESTRATOR_START_WAIT_SECONDS=NO_WAIT)

    assert (1, "error: ") == (code, output[:7])
    assert [] == [sentence for sentence in sentences if sentence not in output]
    assert "hunter2" not in output


def test_there_is_no_schema(empty_database_url: str) -> None:
    """The sentence names the command to run."""
    code, output = refusal(f"worker {SHOP}", url=empty_database_url)

    assert (1, True) == (code, "no orchestrator schema yet; run `orchestrator migrate`" in output)


def test_the_schema_needs_newer_code(database_url: str, connection: psycopg.Connection) -> None:
    """Older code does not start on it."""
    connection.execute("UPDATE orchestrator.settings SET oldest_code = 9000")

    code, output = refusal(f"worker {SHOP}", url=database_url)

    assert (1, True) == (code, "Install a newer pg-orchestrator" in output)
    assert 0 == value(connection, "SELECT count(*) FROM orchestrator.workers")


def test_a_newer_schema_that_supports_this_code_is_served(
    database_url: str, connection: psycopg.Connection
) -> None:
    """The usual order is to migrate first and to deploy later."""
    connection.execute("UPDATE orchestrator.alembic_version SET version_num = '9000'")

    done = run("worker", SHOP, "--until-empty", url=database_url)

    assert 0 == done.returncode, done.stderr


def test_the_schema_is_too_old(database_url: str, connection: psycopg.Connection) -> None:
    """The sentence says what to run."""
    connection.execute("UPDATE orchestrator.alembic_version SET version_num = '0000'")

    code, output = refusal(f"worker {SHOP}", url=database_url)

    assert (1, True) == (
        code,
        "is at revision 0000; this version needs 0002. Run `orchestrator migrate`" in output,
    )


def test_a_role_without_rights_gets_a_message(database_url: str, connection: psycopg.Connection) -> None:
    """A refusal of the server is one sentence, too."""
    name = f"stranger_{connection.info.dbname[-12:]}"
    connection.execute(f"CREATE ROLE {name} LOGIN")
    try:
        code, output = refusal(
            f"worker {SHOP}",
            url=f"{database_url}&user={name}"
            if "?" in database_url
            else database_url.replace("postgres@", f"{name}@"),
        )
    finally:
        connection.execute(f"DROP ROLE {name}")

    assert 1 == code
    assert "permission denied for schema orchestrator" in output


def test_the_error_for_a_missing_module_names_it(tmp_path: Path) -> None:
    """The application exists, but a module that it imports does not."""
    (tmp_path / "jobs.py").write_text("import no_such_library\n")

    code, output = refusal("worker jobs:app", url=NOBODY, cwd=tmp_path)

    assert (1, True) == (code, "jobs cannot be imported: it needs 'no_such_library'" in output)


def test_a_task_declared_twice_is_reported_at_the_start(tmp_path: Path) -> None:
    """Otherwise it would be chance which of the two runs."""
    (tmp_path / "jobs.py").write_text(
        "from orchestrator import Orchestrator\napp = Orchestrator()\n"
        "for _ in range(2):\n    @app.task(name='mail')\n    def mail() -> None: ...\n"
    )

    code, output = refusal("worker jobs:app", url=NOBODY, cwd=tmp_path)

    assert (1, True) == (code, "task type 'mail' is declared twice" in output)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("worker", "Missing argument 'APP'"),
        (f"worker {SHOP} --concurency 3", "--concurrency"),
        (f"worker {SHOP} -c 0", "0 is not in the range x>=1"),
        (f"worker {SHOP} -c many", "'many' is not a valid integer"),
        (f"worker {SHOP} --grace -1", "-1.0 is not in the range x>=0"),
        (f"worker {SHOP} --log-level loud", "'loud' is not one of"),
        (f"worker {SHOP} -q ,", "no queue is named; write for example mail,default"),
        ("worker tests.worker.shob:app", "there is no module 'tests.worker.shob'"),
        ("worker nowhere", "there is no module 'nowhere'"),
        (
            "worker tests.worker.tasks:apq",
            "tests.worker.tasks has no 'apq', where an Orchestrator was expected",
        ),
        ("worker tests.worker.tasks:apq", "did you mean tests.worker.tasks:app?"),
        ("worker tests.worker.tasks:secnd", "did you mean tests.worker.tasks:second?"),
        ("worker tests.worker.tasks:add", "tests.worker.tasks has something else as 'add'"),
        (
            "worker tests.worker.processes",
            "tests.worker.processes has no 'app', where an Orchestrator was expected",
        ),
        ("worker tests/worker/tasks.py", "write MODULE:APP, as in shop.jobs:app"),
        ("worker :app", "':app' does not name an application; write MODULE:APP, as in shop.jobs:app"),
        ("worker ..shop:app", "does not name an application; write MODULE:APP, as in shop.jobs:app"),
        ("wroker", "No such command 'wroker'"),
        ("migrate --chek", "--check"),
    ],
)
def test_a_wrong_command_line(words: str, sentence: str) -> None:
    """Exit status 2, and a suggestion."""
    code, output = refusal(words, url=NOBODY)

    assert 2 == code
    # click's own words, which differ in their quotes from version to version.
    assert sentence in " ".join(output.split())


def test_all_wrong_settings_are_named_together() -> None:
    """One at a time would cost a deployment each."""
    code, output = refusal(
        f"worker {SHOP}",
        ORCHESTRATOR_CONCURRENCY="many",
        ORCHESTRATOR_POLL_SECOND="1",
        ORCHESTRATOR_GRACE_SECONDS="-1",
    )

    assert 1 == code
    assert "ORCHESTRATOR_CONCURRENCY must be a number, not 'many'" in output
    assert "ORCHESTRATOR_POLL_SECOND is not a setting; did you mean ORCHESTRATOR_POLL_SECONDS?" in output
    assert "grace_seconds must be a finite number of at least 0.0, not -1.0" in output


def test_a_worker_that_does_not_wait_at_its_start_fails_with_a_message(
    database_url: str, tmp_path: Path
) -> None:
    """It ends with a sentence, and its service manager tries again."""
    away = database_url.replace("port=5432", "port=5433").replace(":5432", ":5433") + "x"
    with worker(away, tmp_path / "log", ORCHESTRATOR_START_WAIT_SECONDS=NO_WAIT) as process:
        assert 1 == process.wait(PATIENCE_SECONDS)

    assert process.log.startswith("error: cannot connect to ")
