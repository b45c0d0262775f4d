"""The settings: each by its variable, all faults in one message, and suggestions for misspelt names."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from orchestrator import ConfigError, Orchestrator
from orchestrator.config import LEAST, PREFIX, Config

OF_EACH: dict[str, tuple[str, object]] = {
    "database_url": ("postgresql://h/d", "postgresql://h/d"),
    "queues": ("mail, default,,reports", ("mail", "default", "reports")),
    "concurrency": ("7", 7),
    "leaked_threads_max": ("5", 5),
    "start_wait_seconds": ("0", 0.0),
    "grace_seconds": ("0", 0.0),
    "poll_seconds": ("0.5", 0.5),
    "heartbeat_seconds": ("0.1", 0.1),
    "dead_after_seconds": ("60", 60.0),
    "term_seconds": ("20", 20.0),
    "payload_bytes_max": ("1000", 1000),
    "result_bytes_max": ("2000", 2000),
    "pool_size": ("3", 3),
    "pool_timeout_seconds": ("1e-1", 0.1),
    "transaction_pool_size": ("4", 4),
    "statistics_seconds": ("30", 30.0),
    "metrics_port": ("9100", 9100),
    "metrics_host": ("0.0.0.0", "0.0.0.0"),  # noqa: S104 - not listened on
    "log_payloads": ("yes", True),
}


def faults_of(environment: Mapping[str, str] | None = None, /, **given: Any) -> str:
    """Return the message for invalid settings."""
    with pytest.raises(ConfigError) as refused:
        Config.load(environment or {}, **given)
    return str(refused.value)


def test_every_setting_has_its_variable() -> None:
    """The name with the prefix, in capitals; this table names them all."""
    assert list(OF_EACH) == [field.name for field in fields(Config)]
    assert set(LEAST) == set(OF_EACH) - {"database_url", "queues", "metrics_host", "log_payloads"}


@pytest.mark.parametrize("name", OF_EACH)
def test_a_setting_is_read_from_its_variable(name: str) -> None:
    """As the kind it is."""
    text, expected = OF_EACH[name]

    value = getattr(Config.load({PREFIX + name.upper(): text}), name)

    assert (expected, type(expected)) == (value, type(value))


@pytest.mark.parametrize("name", OF_EACH)
def test_an_argument_beats_the_environment(name: str) -> None:
    """None as an argument means: not given."""
    text, expected = OF_EACH[name]
    others = {"database_url": "postgresql://other", "queues": "other", "log_payloads": "off"}
    other = others.get(name, "9")

    assert expected == getattr(Config.load({PREFIX + name.upper(): other}, **{name: expected}), name)
    assert expected == getattr(Config.load({PREFIX + name.upper(): text}, **{name: None}), name)


def test_without_settings_the_defaults_apply() -> None:
    """The documented ones."""
    config = Config.load({})

    assert Config() == config
    assert (20, 30.0, 5.0, 5.0, 30.0) == (
        config.concurrency, config.grace_seconds, config.poll_seconds, config.heartbeat_seconds,
        config.dead_after_seconds,
    )  # fmt: skip
    assert (262_144, 1_048_576, 10, 30.0) == (
        config.payload_bytes_max, config.result_bytes_max, config.pool_size, config.pool_timeout_seconds,
    )  # fmt: skip


def test_all_faults_are_listed_together() -> None:
    """Of the environment and of the arguments; of their names, their types and their sizes."""
    message = faults_of(
        {
            "ORCHESTRATOR_CONCURRENCY": "many",
            "ORCHESTRATOR_POOL_SIZE": "2.5",
            "ORCHESTRATOR_HEARTBEAT_SECOND": "1",
            "ORCHESTRATOR_PROCESES": "2",
            "ORCHESTRATOR_POLL_SECONDS": "0",
        },
        graze_seconds=1,
        queues=["ok", ""],
        result_bytes_max="big",
        metrics_port=10**20,
    )

    faults = [
        "ORCHESTRATOR_CONCURRENCY must be a number, not 'many'",
        "ORCHESTRATOR_POOL_SIZE must be a number, not '2.5'",
        "ORCHESTRATOR_HEARTBEAT_SECOND is not a setting; did you mean ORCHESTRATOR_HEARTBEAT_SECONDS?",
        "ORCHESTRATOR_PROCESES is not a setting; did you mean ORCHESTRATOR_PROCESSES?",
        "graze_seconds is not a setting; did you mean grace_seconds?",
        "queues must be names of 1 to 200 characters, not ('ok', '')",
        "poll_seconds must be a finite number of at least 0.01, not 0.0",
        "result_bytes_max must be a whole number of at least 2, not 'big'",
        "metrics_port must be at most 65,535, not 100000000000000000000",
    ]
    assert "; ".join(faults) == message


def test_a_command_line_option_is_no_setting_of_an_application() -> None:
    """In the environment it is ignored. An application that gives it gets an error."""
    assert Config() == Config.load({"ORCHESTRATOR_PROCESSES": "2"})
    assert "processes is not a setting" == faults_of({}, processes=2)


@pytest.mark.parametrize("name", LEAST)
def test_a_number_too_small_or_of_another_kind_is_refused(name: str) -> None:
    """Also not-a-number and infinity; True is no number."""
    whole = isinstance(LEAST[name], int)

    for wrong in [
        LEAST[name] - 0.001,
        float("nan"),
        float("inf"),
        "1",
        True,
        [1],
        *([LEAST[name] + 0.5] if whole else []),
    ]:
        assert f"{name} must be a {'whole' if whole else 'finite'} number of at least" in faults_of(
            **{name: wrong}
        )


@pytest.mark.parametrize("heartbeat", [0.1, 0.2, 0.7, 5.0, 1 / 3])
def test_a_worker_is_not_declared_dead_for_one_late_beat(heartbeat: float) -> None:
    """At least three times the interval of the beat; exactly three times is allowed, also with rounded fractions."""
    assert Config.load({}, heartbeat_seconds=heartbeat, dead_after_seconds=round(3 * heartbeat, 3))
    assert "dead_after_seconds" in faults_of(heartbeat_seconds=heartbeat, dead_after_seconds=2.9 * heartbeat)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("mail", ("mail",)),
        ("mail, default", ("mail", "default")),
        (["a", "b"], ("a", "b")),
        ({"a": 1, "b": 2}, ("a", "b")),
        ((), ()),
    ],
    ids=repr,
)
def test_queues_may_be_text_or_several(given: object, expected: tuple[str, ...]) -> None:
    """A text is not split into letters."""
    assert expected == Config.load({}, queues=given).queues


@pytest.mark.parametrize("wrong", [7, ["a", None], ["x" * 201], [b"a"]], ids=repr)
def test_queues_of_another_kind_are_refused(wrong: object) -> None:
    """And shown."""
    assert "queues must be names of 1 to 200 characters" in faults_of(queues=wrong)


def test_foreign_variables_are_ignored() -> None:
    """Variables of other programs, and names that are too different from ours to be a slip."""
    assert Config() == Config.load(
        {"PATH": "/bin", "ORCHESTRATOR_TEST_SERVER": "embedded", "ORCHESTRATOR_HOME": "/x"}
    )


def test_an_url_of_another_kind_is_refused_without_being_shown() -> None:
    """It may contain a password."""
    assert "database_url must be text, not a dict" == faults_of(database_url={"password": "hunter2"})
    assert "hunter2" not in repr(Config.load({}, database_url="postgresql://jane:hunter2@h/d"))


def test_an_application_reports_it_when_it_is_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at import, because a module with tasks must be importable anywhere."""
    monkeypatch.setenv("ORCHESTRATOR_CONCURRENCY", "many")
    app = Orchestrator("postgresql://h/d", pol_seconds=1)

    with pytest.raises(ConfigError, match=r"many.*pol_seconds is not a setting; did you mean poll_seconds"):
        _ = app.config
