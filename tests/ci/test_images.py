"""docker-compose.yml and Dockerfile name commands, settings and files that exist.

No engine is here: that the images are built, started and reach each other is not proved.
"""

import re
import shlex
from typing import Any

import yaml

from orchestrator.cli import orchestrator
from orchestrator.cli.load_application import load_app
from orchestrator.config import Config
from tests.forked import REPOSITORY

COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "orchestrator:local"}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def dockerfile() -> list[list[str]]:
    """Return the instructions as words; a continued line is one."""
    text = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_the_services_run_commands_that_exist(monkeypatch: Any) -> None:
    """Their first word is a command of ours, and a worker's application is in the folder that is mounted."""
    assert {"migrate", "worker"} == set(OURS)
    for service in OURS.values():
        assert service["command"][0] in orchestrator.commands
    monkeypatch.chdir(REPOSITORY / "examples")
    assert load_app(SERVICES["worker"]["command"][1]).registry
    assert ["./examples:/app:ro"] == SERVICES["worker"]["volumes"]


def test_the_services_find_the_database() -> None:
    """The URL names the service, the user and the database that the image makes."""
    made = SERVICES["postgres"]["environment"]
    for service in OURS.values():
        environment = {key: value for key, value in service["environment"].items() if key != "PGPASSWORD"}
        url = Config.load(environment).database_url
        assert f"postgresql://{made['POSTGRES_USER']}@postgres:5432/{made['POSTGRES_DB']}" == url
        assert made["POSTGRES_PASSWORD"] == service["environment"]["PGPASSWORD"]
    checked = SERVICES["postgres"]["healthcheck"]["test"]
    assert {f"--username={made['POSTGRES_USER']}", f"--dbname={made['POSTGRES_DB']}"} <= set(checked)


def test_the_services_wait_for_each_other() -> None:
    """For services that are there, under conditions that Compose knows; a healthy one has a check."""
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            assert name in SERVICES
            assert how["condition"] in CONDITIONS
            assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[name]


def test_the_image_is_made_of_files_that_exist() -> None:
    """Each COPY from the source has its file, and all that the wheel is built from is there."""
    copied = [words[1:-1] for words in dockerfile() if words[0] == "COPY" and not words[1].startswith("--")]
    names = {name for part in copied for name in part}

    assert [] == [name for name in names if not (REPOSITORY / name).exists()]
    expected = {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "orchestrator",
        "orchestrator_command.py",
        "migrations",
    }
    assert expected == names


def test_the_image_runs_as_no_root() -> None:
    """The last USER is a number, and the entry point is the command of the package."""
    users = [words[1] for words in dockerfile() if words[0] == "USER"]
    entry = next(words for words in dockerfile() if words[0] == "ENTRYPOINT")

    assert re.fullmatch(r"[1-9]\d+", users[-1])
    assert ['["orchestrator"]'] == entry[1:]
    assert ["orchestrator"] == shlex.split(entry[1].strip("[]"))
