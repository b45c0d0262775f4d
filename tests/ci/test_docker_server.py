"""`ORCHESTRATOR_TEST_SERVER=docker:…`: testcontainers as locked, over HTTP, up to a real PostgreSQL.

There is no Docker engine here. A stand-in answers its API and runs a server of this machine (tests/docker_api.py), so
what the image itself does is not proved.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest

from orchestrator.postgres import embedded_folder
from tests.docker_api import Engine, docker_engine
from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS
from tests.servers import SETTINGS, temporary_directory

# A process of its own: testcontainers reads its environment when it is imported.
PROGRAM = """
import sys, psycopg
from tests.servers import shared_server
with shared_server("docker:postgres:18") as url:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE ROLE without_password LOGIN")
    stranger = url.replace("postgres@", "without_password@")
    with psycopg.connect(stranger) as connection:
        print(url.partition("@")[0], *connection.execute("SELECT current_user, current_setting('fsync')").fetchone())
"""


@pytest.fixture
def engine() -> Iterator[Engine]:
    """The stand-in, with the programs of the embedded server."""
    with temporary_directory() as directory, docker_engine(embedded_folder.binaries(), directory) as engine:
        yield engine


def run(program: list[str], docker_host: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with warnings as errors, as pytest does, and Docker at an address."""
    # Without these, testcontainers asks the engine for more where the tests themselves run in a container.
    here = {"TESTCONTAINERS_CONNECTION_MODE": "docker_host", "TC_HOST": "127.0.0.1"}
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(("DOCKER_", "TC_", "TESTCONT"))
    }
    return subprocess.run(
        [sys.executable, "-W", "error", *program],
        env={**kept, **here, "DOCKER_HOST": docker_host, **more}, cwd=REPOSITORY,
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip


def test_the_import_warns_of_nothing() -> None:
    """Warnings are errors in the tests, so one of testcontainers' would end them all."""
    ran = run(["-c", "import testcontainers.community.postgres"], "unix:///nowhere.sock")

    assert ("", 0) == (ran.stderr, ran.returncode)


def test_a_container_serves_the_tests(engine: Engine) -> None:
    """As `postgres` and without a password, also for roles of the tests, with their settings; then it is removed."""
    ran = run(["-c", PROGRAM], f"unix://{engine.directory}/docker.sock")

    assert ("postgresql://postgres without_password off\n", 0) == (ran.stdout, ran.returncode), ran.stderr
    assert {} == engine.containers
    assert [0] == [command.returncode for command in engine.commands.values()][-1:]


@pytest.mark.long
def test_the_tests_run_in_a_container(engine: Engine) -> None:
    """pytest itself, with its own server choice, its plugins and its filter of warnings."""
    ran = run(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/schema/test_roles.py", "-k", "producer"],
        f"unix://{engine.directory}/docker.sock",
        ORCHESTRATOR_TEST_SERVER="docker:postgres:18",
    )

    assert 0 == ran.returncode, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
    assert "POST /containers/create" in engine.asked
    assert {} == engine.containers


def test_a_missing_docker_is_one_sentence() -> None:
    """What was asked for, what came back, and what to do."""
    ran = run(["-c", PROGRAM], "unix:///nowhere.sock")

    sentence = next(line for line in ran.stderr.splitlines() if line.startswith("RuntimeError: "))
    assert "ORCHESTRATOR_TEST_SERVER=docker:postgres:18: Docker could not run it" in sentence
    assert "Start Docker, or choose another server" in sentence


def test_the_stand_in_runs_a_real_server(engine: Engine) -> None:
    """With the settings that the container is created with; what runs in it runs with its variables."""
    words = [word for item in SETTINGS.items() for word in ("-c", "=".join(item))]
    made = engine.create(
        {
            "Image": "postgres:18", "Cmd": ["postgres", *words], "ExposedPorts": {"5432/tcp": {}},
            "Env": ["POSTGRES_PASSWORD=x", "POSTGRES_USER=postgres"],
        }
    )  # fmt: skip
    container = engine.containers[made["Id"]]

    engine.start(container)
    done = engine.commands[
        engine.command(container, {"Cmd": ["sh", "-c", "echo $POSTGRES_USER; exit 3"]})["Id"]
    ]

    assert (b"postgres\n", 3) == (done.stdout, done.returncode)
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{container.port}/postgres") as connection:
        assert ("200",) == connection.execute("SHOW max_connections").fetchone()
