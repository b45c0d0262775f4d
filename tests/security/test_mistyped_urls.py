"""No output shows a part of a password, even if the password lacks the percent-encoding that the URL needs.

The tests put each reserved character at each place of the password. So libpq, SQLAlchemy or click take a piece of the
password for a host, a port, a database or an argument. No piece of five letters may appear in any output.
"""

import asyncio
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from orchestrator import Orchestrator, testing
from orchestrator.config import Config
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.postgres import connect
from orchestrator.schema import migrate
from tests.cli import in_process
from tests.docs.pages import REPOSITORY
from tests.tiers import long
from tests.worker.processes import surroundings

WORD = "qzvkxwjyhfpgbmdtcnlr"
PIECE = 5
RESERVED = "@/:#?%&=+ ,;[]\\'\"!$*()<>|^~`{}"
PAIRS = (
    "@/", "@:", "@?", "@#", "/@", ":/", "@@", "%4", "%zz", "%00", "%40@", "12/", "12:", "[::1]:", "\udcff",
)  # fmt: skip
FORMS = (
    "postgresql://jane:{}@127.0.0.1:1/shop",
    "postgres://jane:{}@127.0.0.1/shop?port=1",
    "postgresql+psycopg://jane:{}@127.0.0.1:1/shop",
    "postgresql://jane:{}@/shop?host=127.0.0.1&port=1",
    "postgresql:/jane:{}@127.0.0.1:1/shop",
    "postgre://jane:{}@127.0.0.1:1/shop",
    "jane:{}@127.0.0.1:1/shop",
    "postgresql://127.0.0.1:1/shop?user=jane&password={}",
    "postgresql://jane@127.0.0.1:1/shop?password={}&connect_timeout=1",
    "host=127.0.0.1 port=1 user=jane password={}",
    "host=127.0.0.1 port=1 password='{}' user=jane",
    "host=127.0.0.1 port=1 dbname=postgresql://jane:{}@127.0.0.1:1/shop",
)
# A few URLs for the slow tests: the password has one of these characters in its middle or at its start.
MIDDLE = [FORMS[0].format(WORD[:9] + sign + WORD[9:]) for sign in "@/:#?% "]
MIDDLE += [FORMS[0].format(sign + WORD) for sign in "@/?#"]
COMMANDS = (
    "status", "doctor", "queues list", "queues pause default", "tasks list", "tasks show 1", "tasks cancel 1 --yes",
    "tasks export --type mail", "explain 1", "failures", "workers list", "leader", "version", "migrate",
    "migrate --check", "enqueue mail {}", "resume --after-restore --yes", "sql -c \\conninfo",
    "worker tests.worker.tasks:app", "dev tests.worker.tasks:app",
)  # fmt: skip


def mistyped(step: int) -> Iterator[str]:
    """Yield every form with each reserved character at each place of the password, or at some of them and the last."""
    for form in FORMS:
        for sign in RESERVED:
            for place in {*range(0, len(WORD), step), len(WORD)}:
                yield form.format(WORD[:place] + sign + WORD[place:])
        for pair in PAIRS:
            yield form.format(WORD[:9] + pair + WORD[9:])
            yield form.format(pair + WORD)


def pieces(text: str) -> list[str]:
    """Return the pieces of the word that a text contains."""
    return [piece for at in range(len(WORD) - PIECE + 1) if (piece := WORD[at : at + PIECE]) in text]


def shown(error: BaseException) -> str:
    """Return all that a log or a terminal could show of an exception, its causes and its contexts."""
    texts, link = ["".join(traceback.format_exception(error))], [error]
    while link:
        one = link.pop()
        texts += [repr(one), str(one), repr(one.args), repr(vars(one))]
        link += [each for each in (one.__cause__, one.__context__) if each is not None]
    return "\n".join(texts)


def refusal(act: Callable[[], object]) -> BaseException | None:
    """Return the exception that a call raises, or None."""
    try:
        act()
    except Exception as error:
        return error
    return None


def test_the_search_would_find_a_leak() -> None:
    """The search reads the text, the causes and the attributes of an exception."""
    error = ValueError("no")
    error.__context__ = KeyError(f"host {WORD[9:]}@127.0.0.1")

    assert WORD[9:14] in pieces(shown(error))
    assert [] == pieces("nothing of it")


@pytest.mark.parametrize("step", [3, long(1)])
def test_no_error_repeats_an_unreadable_url(step: int) -> None:
    """Neither `conninfo` nor Config repeats it, as an argument or from the environment."""
    leaks = {}
    read = 0
    for url in mistyped(step):
        found = [
            refusal(lambda url=url: connect.conninfo(url)),  # type: ignore[misc] # the loop's own value
            refusal(lambda url=url: Config.load({}, database_url=url)),  # type: ignore[misc]
            refusal(lambda url=url: Config.load({"ORCHESTRATOR_DATABASE_URL": url})),  # type: ignore[misc]
        ]
        # For a URL that is readable, errors and logs show this description.
        shown_text = "".join(shown(error) for error in found if error)
        if found == [None] * 3:
            read += 1
            shown_text = connect.describe(connect.conninfo(url))
        if pieces(shown_text) or not all(isinstance(error, ConfigError | None) for error in found):
            leaks[url] = shown_text

    assert {} == leaks
    assert 1000 < read * step


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (
            f"postgresql://jane:{WORD}@x@db/shop",
            "the host is no name and no address",
        ),
        # Python refuses to look these up, with an error of its own.
        (f"postgresql://jane:{WORD}@shop..example/shop", "the host is no name and no address"),
        (f"host={WORD * 4} user=jane", "the host is no name and no address"),
        (f"postgresql://jane:a/{WORD}@db/shop", "the port is no number"),
        (f"postgresql://jane:/{WORD}@db/shop", "a / stands before the @ that ends the password"),
        (f"postgresql://jane:%zz{WORD}@db/shop", "it is no URL of PostgreSQL, and no list of key=value"),
        (f"dbname=postgresql://jane:{WORD}@db/shop", "the name of the database is a URL"),
    ],
)
def test_the_error_names_the_fault_its_place_and_the_remedy(url: str, says: str) -> None:
    """It names the setting or the argument, the part of the URL that is wrong, and the correct form."""
    with pytest.raises(ConfigError) as in_environment:
        Config.load({"ORCHESTRATOR_DATABASE_URL": url})
    with pytest.raises(ConfigError) as in_code:
        Orchestrator(url).enqueue("mail", {})
    ran = in_process.run("status", "--url", url)

    assert str(in_environment.value).startswith(
        f"ORCHESTRATOR_DATABASE_URL cannot be read: {says}; write postgresql://"
    )
    assert str(in_code.value).startswith(f"database_url cannot be read: {says}; ")
    assert ran.err.startswith(f"error: the database URL (--url, or an argument) cannot be read: {says}; ")
    assert "%40 for @, %2F for /, %3A for :, %23 for #, %3F for ?, %25 for %, %20 for a space" in ran.err


@pytest.mark.parametrize("sign", RESERVED)
def test_an_encoded_password_is_accepted(sign: str) -> None:
    """The advice of the error, to percent-encode the password, works."""
    password = WORD[:9] + sign + WORD[9:]

    read = conninfo_to_dict(connect.conninfo(f"postgresql://jane:{quote(password, safe='')}@db:5432/shop"))

    assert (password, "db", "5432", "shop") == (read["password"], read["host"], read["port"], read["dbname"])


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a,b:5433/shop", "postgresql://[::1]:5432/shop", "postgresql://jane@[fe80::1%25eth0]/shop",
        "postgresql:///shop?host=/var/run/postgresql", "postgresql:///shop?host=@abstract", "postgresql://%2Ftmp/shop",
        "host=/tmp dbname=shop", "host=db_1.example port=5432", "postgresql://jane@localhost/my%40shop", "dbname=a@b",
        "postgresql://db/shop?user=jane@server", "postgresql://jane:@db/shop", "postgresql://",
    ],
)  # fmt: skip
def test_valid_urls_are_accepted(url: str) -> None:
    """Several hosts, addresses, sockets and names with an @ are valid."""
    assert "application_name=orchestrator" in connect.conninfo(url)


@pytest.mark.parametrize("url", MIDDLE)
def test_no_application_repeats_the_password(
    url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """This holds for sync and async enqueue, the worker, migrations, the test helpers, and the logs of the pools."""
    caplog.set_level(logging.DEBUG)
    app = Orchestrator(url, pool_timeout_seconds=0.2, start_wait_seconds=0)
    found = [
        refusal(lambda: app.enqueue("mail", {})),
        refusal(lambda: asyncio.run(app.aenqueue("mail", {}))),
        refusal(lambda: asyncio.run(app.arun_worker(until_empty=True))),
        refusal(lambda: migrate.upgrade(url)),
        refusal(lambda: migrate.state(url)),
        refusal(lambda: testing.frozen_clock(url).__enter__()),
        refusal(lambda: testing.run_tasks(app)),
    ]
    app.close()

    assert [True] * len(found) == [isinstance(error, OrchestratorError) for error in found]
    shown_text = "".join(shown(error) for error in found if error) + caplog.text + "".join(capfd.readouterr())
    assert [] == pieces(shown_text + repr(app) + repr(vars(app)["_producer"]))


@pytest.mark.parametrize("words", COMMANDS)
def test_no_command_repeats_the_password(words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The URL comes from the environment or from --url."""
    leaks = {}
    for url in MIDDLE:
        ran = [
            in_process.run(*words.split(), url=url, ORCHESTRATOR_START_WAIT_SECONDS="0"),
            in_process.run(*words.split(), "--url", url, ORCHESTRATOR_START_WAIT_SECONDS="0"),
        ]
        shown_text = "".join(one.output for one in ran) + "".join(capfd.readouterr())
        if pieces(shown_text) or not all(one.code for one in ran):
            leaks[url] = shown_text

    assert {} == leaks


def test_no_parent_of_several_workers_repeats_the_password(capfd: pytest.CaptureFixture[str]) -> None:
    """Its workers do not repeat it either."""
    ran = in_process.run(
        "worker", "tests.worker.tasks:app", "-p", "2", url=MIDDLE[0], ORCHESTRATOR_START_WAIT_SECONDS="0"
    )

    assert 1 == ran.code
    assert [] == pieces(ran.output + "".join(capfd.readouterr()))


def test_bench_does_not_repeat_the_password(capfd: pytest.CaptureFixture[str]) -> None:
    """`bench` takes the database from --url only."""
    ran = [in_process.run("bench", "--only", "throughput", "--quick", "--url", url) for url in MIDDLE]

    assert [1] * len(MIDDLE) == [one.code for one in ran]
    assert [] == pieces("".join(one.output for one in ran) + "".join(capfd.readouterr()))


@pytest.mark.parametrize(
    "words",
    [
        ("migrate", "--url", f"postgresql://jane:{WORD[:9]}", f"{WORD[9:]}@db/shop"),
        ("status", "--url", "postgresql://jane:x", WORD, "y@db/shop"),
        ("status", f"postgresql://jane:{WORD}@db/shop"),
        ("status", f"--urlpostgresql://jane:{WORD}@db/shop"),
        ("worker", f"postgresql://jane:{WORD}@db/shop"),
        ("worker", f"jane:{WORD}@db/shop"),
        (f"postgresql://jane:{WORD}@db/shop", "status"),
        ("tasks", "show", f"postgresql://jane:{WORD}@db/shop"),
    ],
)
def test_no_usage_error_repeats_the_password(words: tuple[str, ...]) -> None:
    """The shell split the URL at a space, or the URL stands in the place of another argument."""
    ran = in_process.run(*words, url="postgresql://127.0.0.1:1/shop")

    assert 0 != ran.code
    assert [] == pieces(ran.output)


@pytest.mark.parametrize("url", [MIDDLE[0], *map(long, MIDDLE[1:6])])
def test_alembic_does_not_repeat_the_password(url: str) -> None:
    """The test runs the plain `alembic` command with the top-level alembic.ini."""
    done = subprocess.run(
        [sys.executable, "-m", "alembic", "current"],
        cwd=REPOSITORY, env=surroundings(url), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 0 != done.returncode
    assert [] == pieces(done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PGHOST", f"jane:{WORD}@127.0.0.1"),
        ("PGPORT", f"{WORD}@127.0.0.1"),
        ("PGDATABASE", f"postgresql://jane:{WORD}@127.0.0.1/shop"),
    ],
)
def test_no_error_repeats_a_variable_of_libpq(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """The variable holds a URL, or a part of one, but libpq expects none there."""
    monkeypatch.setenv(name, text)

    error = refusal(lambda: connect.open_sync(connect.conninfo("user=jane")))

    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"{name} cannot be read: ")
    assert [] == pieces(shown(error))


@pytest.mark.parametrize("name", ["PGPASSWORD", "PGPASSFILE"])
def test_no_error_repeats_a_password_from_libpqs_variables(
    monkeypatch: pytest.MonkeyPatch, name: str, capfd: pytest.CaptureFixture[str], tmp_path: os.PathLike[str]
) -> None:
    """The password comes from PGPASSWORD, or from the file that PGPASSFILE names."""
    text = WORD
    if name == "PGPASSFILE":
        text = os.path.join(tmp_path, "pgpass")
        with open(
            text, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)
        ) as file:
            file.write(f"127.0.0.1:1:*:jane:{WORD}\n")
    monkeypatch.setenv(name, text)

    error = refusal(lambda: connect.open_sync(connect.conninfo("postgresql://jane@127.0.0.1:1/shop")))

    assert isinstance(error, OrchestratorError)
    assert [] == pieces(shown(error) + "".join(capfd.readouterr()))
