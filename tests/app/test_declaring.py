"""Declaring tasks: the forms of the decorator, names, refusals, and the declared function itself."""

import asyncio
import functools
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from orchestrator import ConfigError, Context, Orchestrator
from orchestrator.app import TaskFunction
from orchestrator.errors import RegistryError
from tests.forked import REPOSITORY
from tests.worker.processes import surroundings
from tests.worker.running import run_until_empty, task


def plain(number: int) -> int:
    """Return twice the number."""
    return 2 * number


async def on_loop(number: int) -> int:
    """Return twice the number."""
    return 2 * number


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Orchestrator:
    """An application that must not connect to anything."""
    monkeypatch.delenv("ORCHESTRATOR_DATABASE_URL", raising=False)
    return Orchestrator()


@pytest.mark.parametrize("function", [plain, on_loop], ids=["def", "async def"])
def test_the_three_forms_of_the_decorator(nowhere: Orchestrator, function: Callable[..., Any]) -> None:
    """The name defaults to module.function."""
    bare = nowhere.task(function)
    called = Orchestrator().task()(function)
    filled = nowhere.task(name="mail.welcome", queue="mail", priority="high", max_attempts=5, timeout=30)(
        function
    )

    default = f"tests.app.test_declaring.{function.__name__}"
    assert [default, default, "mail.welcome"] == [declared.name for declared in (bare, called, filled)]
    handler = filled.handler
    assert ("mail", 75, 5, 30) == (
        handler.queue,
        handler.priority,
        handler.max_attempts,
        handler.timeout_seconds,
    )
    assert ["mail.welcome", default] == [handler.type for handler in nowhere.registry]


def test_a_declared_function_is_still_that_function(nowhere: Orchestrator) -> None:
    """It can be called as before, also by position, and be introspected as before."""
    declared, declared_on_loop = nowhere.task(plain), nowhere.task(on_loop)

    assert 42 == declared(21) == declared(number=21) == asyncio.run(declared_on_loop(21))
    assert ("plain", plain.__doc__, __name__) == (declared.__name__, declared.__doc__, declared.__module__)
    assert inspect.signature(plain) == inspect.signature(declared)
    assert plain is inspect.unwrap(declared)
    assert "<task tests.app.test_declaring.plain>" == repr(declared)
    assert isinstance(declared, TaskFunction)


def test_main_must_give_a_name() -> None:
    """__main__ is another module in every process."""
    code = (
        "from orchestrator import Orchestrator\napp = Orchestrator()\n"
        "@app.task(name='mine')\ndef named(): ...\n"
        "try:\n    @app.task\n    def welcome(): ...\nexcept Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=surroundings(None), cwd=REPOSITORY, capture_output=True, text=True,
        check=True,
    )  # fmt: skip

    assert (
        "RegistryError welcome: give it a name=, since __main__ is another module in every process\n"
        == done.stdout
    )


def test_a_name_is_given_once(nowhere: Orchestrator) -> None:
    """The second declaration is refused, and the first one stays."""
    first = nowhere.task(name="mail")(plain)

    with pytest.raises(
        RegistryError, match="task type 'mail' is declared twice; give one of the two another name="
    ):
        nowhere.task(name="mail")(on_loop)
    assert first.handler is nowhere.registry.find("mail")
    assert 1 == len(nowhere.registry)


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00b", "x" * 201])
def test_a_name_must_be_a_name(nowhere: Orchestrator, name: str) -> None:
    """1 to 200 printable characters."""
    with pytest.raises(RegistryError, match="a task's name must be 1 to 200 printable characters"):
        nowhere.task(name=name)(plain)


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"priority": 101}, "the priority is 101; it must lie between 0 and 100"),
        ({"priority": "urgent"}, "the priority is 'urgent'; it must be 0 to 100, or one of low, normal, high"),
        ({"priority": True}, "the priority is True"),
        ({"timeout": -1}, "timeout is -1; it must lie between 0 and 100 years"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"timeout": "30"}, "timeout is '30'; it must be a timedelta"),
        ({"max_attempts": 0}, "max_attempts is 0; it must lie between 1 and 32,767"),
        ({"max_attempts": 2.5}, "max_attempts is 2.5"),
        ({"queue": ""}, "queue must have 1 to 200 characters, not 0"),
        ({"queue": "q" * 201}, "queue must have 1 to 200 characters, not 201"),
        ({"queue": None}, "queue is of type NoneType; it must be text"),
    ],
)  # fmt: skip
def test_an_invalid_option_is_refused_at_the_declaration(
    nowhere: Orchestrator, wish: dict[str, Any], sentence: str
) -> None:
    """At import, with the function's name, and nothing is declared."""
    with pytest.raises(ConfigError) as refused:
        nowhere.task(**wish)(plain)

    assert str(refused.value).startswith(f"plain: {sentence}")
    assert 0 == len(nowhere.registry)


def test_a_function_that_could_never_be_called_is_refused(nowhere: Orchestrator) -> None:
    """Generators return nothing, and a payload's members are keyword arguments."""

    def positional(number: int, /) -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(RegistryError, match="parameter 'number' is positional-only"):
        nowhere.task(positional)
    for function in (generator, async_generator):
        with pytest.raises(RegistryError, match="a generator cannot be a handler"):
            nowhere.task(function)


def test_a_timeout_may_be_a_timedelta(nowhere: Orchestrator) -> None:
    """Or a number of seconds, or 0 for no limit."""
    declared = nowhere.task(timeout=timedelta(minutes=2))(plain)
    endless = nowhere.task(timeout=0)(on_loop)

    assert (120, 0) == (declared.handler.timeout_seconds, endless.handler.timeout_seconds)


def test_a_handler_may_use_any_parameter_names(app: Orchestrator, connection: psycopg.Connection) -> None:
    """Names of our options, of our own parameters, of Python's conventions: they all reach the handler."""
    names = ("priority", "queue", "self", "self_", "options", "arguments", "args", "key", "context", "held", "target",
             "delay", "timeout", "type", "payload", "id", "task", "handler", "function", "name", "cls")  # fmt: skip
    space: dict[str, Any] = {}
    exec(f"def greedy({', '.join(names)}): return dict(locals())", space)  # noqa: S102 - of the names above
    greedy: Any = app.task(name="greedy")(space["greedy"])
    given = dict.fromkeys(names, 1)

    enqueued = [
        greedy.enqueue(**given),
        greedy.using(priority="low").enqueue(**given),
        greedy.using().call(**given),
    ]
    asyncio.run(enqueue_once(app, greedy, given))
    run_until_empty(app)

    assert given == greedy(**given)
    assert given == task(connection, enqueued[0].id).result == task(connection, enqueued[1].id).result
    assert 25 == task(connection, enqueued[1].id).priority
    assert 3 == len(
        connection.execute("SELECT FROM orchestrator.tasks WHERE status = 'completed'").fetchall()
    )


async def enqueue_once(app: Orchestrator, declared: Any, given: dict[str, int]) -> None:
    await declared.aenqueue(**given)
    await app.aclose()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "greet: missing a required argument: 'number'"),
        ({"number": 1, "colour": 2}, "greet: got an unexpected keyword argument 'colour'"),
        ({"number": 1, "me": None}, "greet: 'me' is the handler's Context; it is not enqueued"),
    ],
)
def test_a_wrong_argument_is_a_type_error_where_it_is_enqueued(
    nowhere: Orchestrator, arguments: dict[str, Any], sentence: str
) -> None:
    """Like a call would raise, and not hours later in a worker. It needs no database."""

    @nowhere.task(name="greet")
    def greet(number: int, me: Context, also: int = 3) -> None: ...

    async def on_the_loop() -> None:
        await greet.aenqueue(**arguments)

    for wrong in (lambda: greet.enqueue(**arguments), lambda: asyncio.run(on_the_loop())):
        with pytest.raises(TypeError) as refused:
            wrong()
        assert sentence == str(refused.value)


def test_positional_arguments_are_refused_with_advice(nowhere: Orchestrator) -> None:
    """A payload's members have names."""
    declared = nowhere.task(name="double")(plain)

    with pytest.raises(TypeError, match="double: a task's arguments are keyword arguments; name them"):
        declared.enqueue(21)


def test_a_context_is_found_under_any_name_and_annotation(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Also where annotations are text, and for a partial of a function."""

    def quoted(number: int, here: "Context") -> list[int]:
        return [number, here.attempt]

    def many(here: Context, **rest: int) -> list[int]:
        return [rest["number"], here.attempt]

    @functools.wraps(quoted)
    def wrapped(*args: Any, **kwargs: Any) -> list[int]:
        return quoted(*args, **kwargs)

    functions: dict[str, Callable[..., Any]] = {"quoted": quoted, "many": many, "wrapped": wrapped}
    ids = [app.task(name=name)(function).enqueue(number=7).id for name, function in functions.items()]
    run_until_empty(app)

    assert [[7, 1]] * 3 == [task(connection, task_id).result for task_id in ids]


def test_an_application_needs_no_database_to_be_imported(nowhere: Orchestrator) -> None:
    """A declaration connects to nothing. The first use reports a missing URL."""
    declared = nowhere.task(plain)

    with pytest.raises(ConfigError, match="no database was named"):
        declared.enqueue(number=1)
    nowhere.close()


def test_the_url_may_be_given_in_each_way(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By position, by name, in the environment; in SQLAlchemy's form, too."""
    monkeypatch.setenv("ORCHESTRATOR_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    for application in (
        Orchestrator(database_url),
        Orchestrator(database_url=database_url),
        Orchestrator(database_url.replace("postgresql://", "postgresql+psycopg://")),
    ):
        assert application.task(plain).enqueue(number=1).created
        application.close()
    monkeypatch.setenv("ORCHESTRATOR_DATABASE_URL", database_url)
    application = Orchestrator()
    assert application.task(plain).enqueue(number=1).created
    application.close()
