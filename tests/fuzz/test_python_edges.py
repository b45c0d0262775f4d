"""Each argument of each public call in Python, with values that it cannot accept."""

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from orchestrator import Backoff, Orchestrator, Retry, Snooze
from orchestrator.config import Config
from orchestrator.errors import OrchestratorError

LONG = "x" * 1_000_000
WRONG: tuple[Any, ...] = (
    None, "", LONG, b"x", b"x" * 1_000_000, "\x00", "a\nb", "\ud800", 0, -1, 2, 2**31, 2**63, -(2**63) - 1, 10**400,
    10**5000, math.nan, math.inf, -math.inf, 1e300, 0.5, True, [], [None], {}, {1}, object(), [LONG],
)  # fmt: skip
# A wrong argument is a mistake in the user's program. It raises one of these, with one line that names the argument.
REFUSALS = (OrchestratorError, ValueError, TypeError)
LINE_CHARACTERS_MAX = 400


def handler(user_id: int = 0) -> None:
    """Do nothing."""


def calls(app: Orchestrator) -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Yield each argument of each public call: its name, and a function that makes the call with a value for it."""
    for option in ("name", "queue", "priority", "max_attempts", "timeout", "backoff", "executor"):
        # A valid name, so that the default name is never the reason of a refusal.
        named = {} if option == "name" else {"name": "edge"}
        yield f"task({option}=)", given(declared, option, named)
    task = app.task(name="mail")(handler)
    yield "task()", lambda value: app.task(value) if value is not None else None
    for option in (
        "queue", "priority", "run_at", "delay", "key", "key_window", "max_attempts", "timeout", "tags", "metadata",
    ):  # fmt: skip
        extra = {"key": "edge"} if option == "key_window" else {}
        yield f"using({option}=)", given(lambda **options: task.using(**options).enqueue(), option, extra)
    yield "using()", lambda value: task.using(value).enqueue()
    yield "enqueue(user_id=)", lambda value: task.enqueue(user_id=value)
    yield "enqueue(**)", lambda value: task.enqueue(**{as_name(value): 1})
    yield "enqueue_many()", lambda value: task.enqueue_many(value)
    yield "enqueue_many([])", lambda value: task.enqueue_many([value])
    yield "app.enqueue(name)", lambda value: app.enqueue(value, {})
    yield "app.enqueue(arguments)", lambda value: app.enqueue("other", value)
    yield "app.enqueue(**)", lambda value: app.enqueue("other", {}, **{as_name(value): 1})
    yield "app.enqueue(mail)", lambda value: app.enqueue("mail", {as_name(value): 1})
    yield "app.enqueue_many()", lambda value: app.enqueue_many(value)
    yield "app.enqueue_many([])", lambda value: app.enqueue_many([value])
    yield "handle()", lambda value: app.handle(value)
    # The task does not exist, so a valid timeout does not wait.
    yield "result(timeout=)", lambda value: app.handle(2**62).result(timeout=value)
    yield "cancel(reason=)", lambda value: task.enqueue().cancel(value)
    yield "on()", lambda value: app.on(value)
    yield "on() of a class", lambda value: app.on(type(value, (), {})) if value == LONG else None
    yield "off()", lambda value: app.off(value)
    yield "on(call=)", lambda value: app.on(call=value) if value is not None else None
    yield "Retry()", Retry
    yield "Snooze()", Snooze
    for field in ("base_seconds", "factor", "cap_seconds", "jitter"):
        yield f"Backoff({field}=)", given(Backoff, field, {})
    for setting in Config.__dataclass_fields__:
        yield f"Config({setting}=)", given(loaded, setting, {})


def given(call: Callable[..., object], name: str, others: dict[str, Any]) -> Callable[[Any], object]:
    return lambda value: call(**{**others, name: value})


def as_name(value: Any) -> str:
    """Return a value as the name of an argument."""
    try:
        return str(value)
    except ValueError:  # a number of more than 4300 digits
        return "x"


def declared(**options: Any) -> object:
    return Orchestrator().task(**options)(handler)


def loaded(**settings: Any) -> Config:
    return Config.load({}, **settings)


def fault(error: BaseException) -> str | None:
    """Return what is wrong with a refusal, or None: it is one line."""
    message = str(error)
    if not isinstance(error, REFUSALS) or isinstance(error, UnicodeError):
        return f"{type(error).__name__}: {message[:200]}"
    if len(message) > LINE_CHARACTERS_MAX or "\n" in message or not message:
        return f"{type(error).__name__}: {message[:200]!r} … ({len(message)} characters)"
    return None


def test_every_python_argument_is_accepted_or_refused_in_one_line(database_url: str) -> None:
    """The refusal is an error of the project, a TypeError or a ValueError. It never contains all of a long value."""
    faults: list[str] = []
    with closing(Orchestrator(database_url)) as app:
        for name, call in calls(app):
            for value in WRONG:
                shown = f"{type(value).__name__} {len(value) if hasattr(value, '__len__') else ''}"
                try:
                    call(value)
                except BaseException as error:
                    if told := fault(error):
                        faults.append(f"{name} with {shown}: {told}")

    assert not faults, "\n".join(faults)
