"""The lines on standard error."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
import structlog

from orchestrator import Context, events, observe
from orchestrator.observe import log, log_output
from tests.conftest import MakeApp
from tests.worker.running import run_until_empty

# The main thread forks while another thread imports structlog.
FORK_DURING_THE_IMPORT = """
import os, signal, sys, threading
from orchestrator.observe import logger

class Slow:
    def find_spec(self, name, *_):
        if name == "structlog":
            begun.set()
            forked.wait(0.5)

sys.meta_path.insert(0, Slow())
begun, forked = threading.Event(), threading.Event()
thread = threading.Thread(target=logger)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    logger().info("from the child")
    os._exit(0)
forked.set()
thread.join()
sys.exit(os.waitpid(child, 0)[1])
"""


class Unbuffered(io.StringIO):
    """Remembers each write, like an unbuffered file with one system call for each."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unbuffered]:
    """Standard error with lines for events."""
    file = Unbuffered()
    monkeypatch.setattr(sys, "stderr", file)
    # pytest's own handlers on the root logger are nobody's wish.
    monkeypatch.setattr(log_output, "logging_is_configured", lambda: False)
    structlog.reset_defaults()
    stop = observe.follow()
    yield file
    stop()
    structlog.reset_defaults()


def test_a_line_is_written_at_once_with_its_end(stderr: Unbuffered) -> None:
    """Several processes write to one standard error, and their lines must not mix."""
    events.emit(events.ChildStarted(1, 4711))

    (written,) = stderr.writes
    assert "\n" == written[-1]
    assert ("child started", 4711) == (json.loads(written)["event"], json.loads(written)["pid"])


def test_an_equal_line_is_not_repeated_at_once_but_one_with_another_reason_is_written(
    stderr: Unbuffered,
) -> None:
    """While the database is away, hundreds of events per minute say so; a new reason is new information."""
    for reason in ("closed", "closed", "certificate verify failed", "closed"):
        events.emit(events.ConnectionLost("claims", reason))

    assert ["closed", "certificate verify failed"] == [json.loads(line)["reason"] for line in stderr.writes]


def test_the_memory_of_written_lines_is_bounded() -> None:
    """A reason may contain a unique address or number."""
    news = log.Repeats()
    for n in range(10 * log.SAID_MAX):
        assert 0 == news.of(events.ConnectionLost("claims", f"reason {n}"))

    assert log.SAID_MAX == len(news._said)


def lines_of(file: Unbuffered) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.writes]


def test_a_line_names_the_task_the_place_and_the_duration(
    stderr: Unbuffered, make_app: MakeApp, connection: psycopg.Connection
) -> None:
    """A handler's own lines have the same fields, with masked secrets. There is no line for a success, and no
    payload."""
    app = make_app()

    @app.task(name="fail", queue="mail", max_attempts=1)
    async def fail(password: str, context: Context) -> None:
        context.log.info("about to", password=password, url=f"https://u:{password}@h/")
        raise ValueError(f"no: password={password}")

    @app.task(name="work", queue="mail")
    async def work() -> None: ...

    fail.enqueue(password="hunter2")  # noqa: S106 - it is looked for
    work.enqueue()
    run_until_empty(app)

    lines = lines_of(stderr)
    (logged,) = (line for line in lines if line["event"] == "about to")
    (dead_lettered,) = (line for line in lines if line["event"] == "task dead lettered")
    assert ("***", "https://u:***@h/") == (logged["password"], logged["url"])
    for name in ("task_id", "type", "queue", "attempt"):
        assert logged[name] == dead_lettered[name]
    (worker_id,) = {line["worker_id"] for line in lines if "worker_id" in line}
    assert (worker_id, "no: password=***") == (dead_lettered["worker_id"], dead_lettered["message"])
    assert isinstance(dead_lettered["duration_seconds"], float)
    assert "hunter2" not in str(lines)
    assert not [line for line in lines if line["event"] in ("task completed", "task payload")]


def test_payloads_are_logged_on_request(stderr: Unbuffered, make_app: MakeApp) -> None:
    """A line for each attempt, with masked secrets."""
    app = make_app(log_payloads=True)

    @app.task(name="work")
    async def work(user: dict[str, str]) -> None: ...

    work.enqueue(user={"name": "jane", "api_key": "hunter2"})
    run_until_empty(app)

    (line,) = (line for line in lines_of(stderr) if line["event"] == "task payload")
    assert {"user": {"name": "jane", "api_key": "***"}} == json.loads(str(line["payload"]))


class Kept(logging.Handler):
    """Keeps its records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    """A handler of the user's on our logger, at INFO."""
    structlog.reset_defaults()
    handler, ours = Kept(), logging.getLogger("orchestrator")
    before = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    yield handler
    ours.removeHandler(handler)
    ours.setLevel(before)
    structlog.reset_defaults()


FAILED = events.TaskFailed(
    7, "mail.send", "mail", 1, "ValueError", "token=abcd at\n100 %s", 2.0, duration_seconds=0.1234567
)


def test_an_application_that_has_configured_logging_gets_records(
    kept: Kept, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of its level, with the fields in the message and beside it. Nothing else goes to standard error."""
    stop = observe.follow(minimum="debug")
    events.emit(FAILED)
    events.emit(events.TaskCompleted(8, "mail.send", "mail", 1))
    try:
        raise ValueError("no")
    except ValueError:
        observe.logger(task_id=7).exception("failed", name="jane", args=(1,), password="hunter2")  # noqa: S106 - it is looked for
    stop()

    failed, excepted = kept.records
    assert ("orchestrator", logging.WARNING) == (failed.name, failed.levelno)
    assert (
        "task failed task_id=7 type=mail.send queue=mail attempt=1 duration_seconds=0.123457"
        " error_class=ValueError message='token=*** at\\n100 %s' retry_after_seconds=2.0"
    ) == failed.getMessage()
    assert 7 == vars(failed)["orchestrator"]["task_id"]
    assert "failed task_id=7 name=jane args=[1] password=***" == excepted.getMessage()
    assert excepted.exc_info is not None
    assert ("", "") == capfd.readouterr()


def test_the_configuration_of_structlog_comes_first(kept: Kept) -> None:
    """Before any other. Secrets are masked before the user's processors see them."""
    seen: list[dict[str, object]] = []

    def keep(_logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        seen.append(dict(line))
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    stop = observe.follow()
    events.emit(FAILED)
    observe.logger(task_id=7).info("said", token="hunter2")  # noqa: S106 - it is looked for
    stop()

    assert [] == kept.records
    assert [("task failed", 7), ("said", 7)] == [(line["event"], line["task_id"]) for line in seen]
    assert "***" == seen[1]["token"]
    assert "abcd" not in str(seen)


def test_a_null_handler_of_a_library_is_no_configuration(
    stderr: Unbuffered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a handler that does not get our records."""
    monkeypatch.undo()
    monkeypatch.setattr(
        logging.getLogger(), "handlers", []
    )  # an earlier test, or pytest, may have put some there
    ours = logging.getLogger("orchestrator")
    null, elsewhere = logging.NullHandler(), Kept()
    ours.addHandler(null)
    logging.getLogger("elsewhere").addHandler(elsewhere)
    ours.propagate = False
    try:
        assert not log_output.logging_is_configured()
        ours.addHandler(elsewhere)
        assert log_output.logging_is_configured()
    finally:
        ours.propagate = True
        for handler in (null, elsewhere):
            ours.removeHandler(handler)
        logging.getLogger("elsewhere").removeHandler(elsewhere)


def test_a_child_that_is_forked_during_the_import_of_structlog_can_log() -> None:
    """The fork waits for the import. Otherwise the child would wait for ever for a thread that it does not have."""
    run = subprocess.run(
        [sys.executable, "-c", FORK_DURING_THE_IMPORT], capture_output=True, text=True, check=False
    )

    assert 0 == run.returncode, run.stderr
    assert "from the child" in run.stdout
