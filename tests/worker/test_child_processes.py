"""Handlers in child processes: their input, their results, and the effects of their end."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator import Orchestrator, events
from orchestrator.errors import RegistryError
from orchestrator.execute import child, children
from tests.patience import PATIENCE_SECONDS, eventually
from tests.tiers import long
from tests.worker import processing, running
from tests.worker.processes import worker
from tests.worker.running import attempts, recorded, status, task, until, value


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    """Every child of a test ends soon after it. Each has a thread here while it lives."""
    yield
    asyncio.run(until(lambda: not child_threads(), "the children have ended"))


def child_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "orchestrator-child"]


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def enqueue(connection: psycopg.Connection, kind: str, **options: Any) -> int:
    """Enqueue a task of the application that children import, with its defaults."""
    handler = processing.app.registry.find(kind)
    assert handler is not None
    given = {"payload": Jsonb(options.pop("payload", {})), **options}
    given.setdefault("timeout", f"{handler.timeout_seconds or 60} s")
    given.setdefault("max_attempts", handler.max_attempts or 4)
    names = psycopg.sql.SQL(", ").join(
        psycopg.sql.SQL("{} => {}").format(psycopg.sql.Identifier(name), psycopg.sql.Placeholder())
        for name in given
    )
    statement = psycopg.sql.SQL("SELECT orchestrator.enqueue(%s, {})").format(names)
    row = connection.execute(statement, [kind, *given.values()]).fetchone()
    assert row is not None
    return int(row[0])


def new_worker(url: str, **settings: Any) -> Any:
    return processing.app.worker(
        database_url=url, **{"poll_seconds": 1.0, "heartbeat_seconds": 0.5, "grace_seconds": 10.0, **settings}
    )


def run(url: str, **settings: Any) -> None:
    """Run a worker until its queues are empty."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await new_worker(url, until_empty=True, **settings).run()

    asyncio.run(main())


def result(connection: psycopg.Connection, url: str, kind: str, **options: Any) -> Any:
    """Run one task, and return its row."""
    task_id = enqueue(connection, kind, **options)
    run(url)
    return task(connection, task_id)


def test_a_child_runs_one_handler_after_another_in_its_main_thread(
    database_url: str, connection: psycopg.Connection
) -> None:
    """Tasks one at a time need one child, a process of its own."""
    ids = [enqueue(connection, "process.whoami") for _ in range(5)]
    run(database_url, concurrency=1)

    results = [task(connection, task_id).result for task_id in ids]
    assert 1 == len({answer["pid"] for answer in results})
    assert {(os.getpid(), "MainThread")} == {(answer["parent"], answer["thread"]) for answer in results}
    assert os.getpid() != results[0]["pid"]


DEATHS = {
    "exit 3": "the handler's process ended with exit code 3",
    "exit 0": "the handler's process ended with exit code 0",
    "segfault": "the handler's process was killed by signal 11 (SIGSEGV)",
    "kill": "the handler's process was killed by signal 9 (SIGKILL); the kernel's OOM killer does that",
    "close": "the handler's process closed its line to the worker, and was killed",
}


def test_a_process_that_dies_costs_one_attempt(database_url: str, connection: psycopg.Connection) -> None:
    """Each death is a failed attempt with the reason. The worker goes on with the next task in its one slot."""
    # One worker for all, and one attempt for most: each start of an interpreter takes 0.3 s of CPU.
    attempts_of = dict.fromkeys(DEATHS, 1) | {"exit 3": 2}
    ids = {
        how: enqueue(connection, "process.end", payload={"how": how}, max_attempts=attempts_of[how])
        for how in DEATHS
    }
    after = enqueue(connection, "process.give", payload={"what": ""})
    run(database_url, concurrency=1)

    rows = {how: task(connection, task_id) for how, task_id in ids.items()}
    assert {("dead_letter", 0)} == {(row.status, row.losses) for row in rows.values()}
    assert {how: ("ExecutorCrashed", message) for how, message in DEATHS.items()} == {
        how: (row.error["class"], row.error["message"]) for how, row in rows.items()
    }
    assert {how: [(n, "failed") for n in range(1, most + 1)] for how, most in attempts_of.items()} == {
        how: attempts(connection, task_id) for how, task_id in ids.items()
    }
    assert "completed" == status(connection, after)


async def test_the_death_of_a_child_harms_no_other(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Neither a child that works at the same time, nor the next task after an idle child was killed."""
    waiting = enqueue(connection, "process.wait", payload=paths(tmp_path, "here", "gate"))

    serving = asyncio.create_task(new_worker(database_url, concurrency=2).run())
    await until((tmp_path / "here").exists, "it waits")
    for kind, payload in (("process.end", {"how": "kill"}), ("process.whoami", {})):
        ended = enqueue(connection, kind, payload=payload)
        await until(lambda ended=ended: status(connection, ended) not in OPEN, "it ended")  # type: ignore[misc]
    os.kill(task(connection, ended).result["pid"], signal.SIGKILL)
    after = enqueue(connection, "process.whoami")
    await until(lambda: status(connection, after) == "completed", "a fresh child has done it")
    assert [] == attempts(connection, after)
    (tmp_path / "gate").touch()
    await until(lambda: status(connection, waiting) == "completed", "the one beside is done")
    await stopped(serving)

    assert [] == attempts(connection, waiting)


@pytest.mark.long
def test_among_crashes_every_result_reaches_its_task(
    database_url: str, connection: psycopg.Connection
) -> None:
    """And no descriptor stays open."""
    ids = {}
    for n in range(100):
        ids[enqueue(connection, "process.double", payload={"n": n})] = 2 * n
        if n % 25 == 10:
            how = {"how": ("exit 3", "segfault", "kill", "exit 0")[n // 25]}
            enqueue(connection, "process.end", payload=how, max_attempts=1)
    open_before = len(os.listdir("/proc/self/fd"))
    run(database_url, concurrency=4)

    assert ids == {task_id: task(connection, task_id).result for task_id in ids}
    assert {"completed": 100, "dead_letter": 4} == running.statuses(connection)
    asyncio.run(until(lambda: not child_threads(), "the children have ended"))
    assert open_before == len(os.listdir("/proc/self/fd"))


OPEN = ("pending", "claimed", "running", "scheduled")


async def stopped(serving: asyncio.Task[None]) -> None:
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait_for(serving, PATIENCE_SECONDS)


def paths(folder: Path, *names: str) -> dict[str, str]:
    return dict(zip(("path", "gate"), (str(folder / name) for name in names), strict=False))


async def test_a_child_killed_from_outside_is_reported(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """As by the kernel when memory runs out."""
    task_id = enqueue(connection, "process.wait", payload=paths(tmp_path, "here", "gate"), max_attempts=1)

    serving = asyncio.create_task(new_worker(database_url).run())
    await until((tmp_path / "here").exists, "it waits")
    os.kill(int((tmp_path / "here").read_text()), signal.SIGKILL)
    await until(lambda: status(connection, task_id) == "dead_letter", "it failed")
    await stopped(serving)

    assert "was killed by signal 9 (SIGKILL)" in task(connection, task_id).error["message"]


@pytest.mark.parametrize("hold", [long(False), True], ids=["in Python", "in C, with the interpreter's lock"])
def test_the_timeout_kills(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, hold: bool
) -> None:
    """It kills any handler and its own processes. Nothing is left behind, and the slot is free."""
    warm = enqueue(
        connection, "process.whoami"
    )  # so that the timeout hits the handler, and not the start of its child
    first = enqueue(connection, "process.hang", payload={**paths(tmp_path, "here"), "hold": hold})
    second = enqueue(connection, "process.whoami")
    with recorded(events.HandlerAbandoned) as abandoned:
        run(database_url, concurrency=1)

    row = task(connection, first)
    assert ("dead_letter", "Timeout") == (row.status, row.error["class"])
    assert ["completed", "completed"] == [status(connection, warm), status(connection, second)]
    assert [] == abandoned
    pids = [int(word) for word in (tmp_path / "here").read_text().split()]
    asyncio.run(until(lambda: not any(map(is_alive, pids)), "both are dead"))


async def test_a_manual_cancel_kills_the_child(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The lease is void, and the process is killed."""
    task_id = enqueue(connection, "process.wait", payload=paths(tmp_path, "here", "gate"))

    serving = asyncio.create_task(new_worker(database_url).run())
    await until((tmp_path / "here").exists, "it waits")
    connection.execute("UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s", [task_id])
    pid = int((tmp_path / "here").read_text())
    await until(lambda: not is_alive(pid), "the child is dead")
    await stopped(serving)

    assert "cancelled" == status(connection, task_id)


async def test_a_worker_that_stops_lets_finish_and_leaves_no_child(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """A child goes on during the grace. Then it is killed, and its task is given back uncharged, on record."""
    patient = enqueue(connection, "process.wait", payload=paths(tmp_path, "one", "gate"))
    endless = enqueue(connection, "process.wait", payload=paths(tmp_path, "two", "never"))

    made = new_worker(database_url, grace_seconds=PATIENCE_SECONDS)
    serving = asyncio.create_task(made.run())
    await until(lambda: (tmp_path / "one").exists() and (tmp_path / "two").exists(), "both wait")
    with recorded(events.WorkerStopping) as stopping:
        made.stop()
        await until(lambda: stopping, "it drains")
    (tmp_path / "gate").touch()
    await until(lambda: status(connection, patient) == "completed", "the patient one is done")
    made.stop()
    await asyncio.wait_for(serving, PATIENCE_SECONDS)

    assert ("pending", 0, [(1, "released")]) == (
        status(connection, endless),
        task(connection, endless).attempt,
        attempts(connection, endless),
    )


def test_a_worker_killed_with_kill_9_takes_its_children_along(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Also a child that holds the interpreter's lock and receives no signal, with its own processes."""
    enqueue(connection, "process.hang", payload={**paths(tmp_path, "held"), "hold": True}, timeout="60 s")
    enqueue(connection, "process.hang", payload={**paths(tmp_path, "free"), "hold": False}, timeout="60 s")
    app = "tests.worker.processing:app"
    with worker(database_url, tmp_path / "log", app=app) as process:
        eventually(lambda: (tmp_path / "held").exists() and (tmp_path / "free").exists(), "both hang")
        pids = [int(word) for name in ("held", "free") for word in (tmp_path / name).read_text().split()]
        assert [True] * 4 == list(map(is_alive, pids))
        process.signal(signal.SIGKILL)
        process.wait()

    eventually(lambda: not any(map(is_alive, pids)), "all are dead")


def test_a_childs_own_processes_end_with_the_worker_even_if_a_fork_lives_on(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """The fork holds the pipe open, so its end does not show the end of the worker. The child's death is not enough
    either."""
    enqueue(connection, "process.hang", payload=paths(tmp_path, "here"), timeout="60 s")
    with worker(database_url, tmp_path / "log", app="tests.worker.processing:app") as process:
        eventually((tmp_path / "here").exists, "it hangs")
        pids = [int(word) for word in (tmp_path / "here").read_text().split()]
        enqueue(connection, "process.fork", payload=paths(tmp_path, "forked"))
        eventually((tmp_path / "forked").exists, "the worker has forked")
        forked = int((tmp_path / "forked").read_text())
        try:
            process.signal(signal.SIGKILL)
            process.wait()
            eventually(lambda: not any(map(is_alive, pids)), "the child and what it had started are gone")
            assert is_alive(forked)
        finally:
            os.kill(forked, signal.SIGKILL)


def test_signals_to_the_process_group_do_not_reach_the_children(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Only the worker acts on Ctrl-C and SIGTERM, so running handlers may finish."""
    task_id = enqueue(connection, "process.wait", payload=paths(tmp_path, "here", "gate"))
    app = "tests.worker.processing:app"
    with worker(database_url, tmp_path / "log", app=app) as process:
        eventually((tmp_path / "here").exists, "it waits")
        pid = int((tmp_path / "here").read_text())
        assert os.getsid(pid) != os.getsid(process.pid)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
        process.signal(signal.SIGTERM)
        eventually(lambda: process.has_logged("worker stopping"), "it drains")
        (tmp_path / "gate").touch()
        assert 0 == process.wait(), process.log

    assert ("completed", []) == (status(connection, task_id), attempts(connection, task_id))
    eventually(lambda: not is_alive(pid), "the child is gone")


@pytest.mark.parametrize(
    ("attribute", "broken", "message"),
    [
        ("PROGRAM", "raise SystemExit(9)", "the handler's process ended with exit code 9, before it began"),
        ("INTERPRETER_OPTIONS", ("\0",), "the handler's process could not be started: embedded null byte"),
    ],
)
def test_a_child_that_cannot_start_fails_the_attempt(
    database_url: str,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    attribute: str,
    broken: object,
    message: str,
) -> None:
    """After a few tries, with the reason."""
    monkeypatch.setattr(child, attribute, broken)
    row = result(connection, database_url, "process.whoami", max_attempts=1)

    assert ("dead_letter", "ExecutorCrashed") == (row.status, row.error["class"])
    assert row.error["message"].startswith(message)


def test_a_system_without_threads_fails_the_attempt(
    database_url: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no descriptor stays open."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "orchestrator-child":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    open_before = len(os.listdir("/proc/self/fd"))
    row = result(connection, database_url, "process.whoami", max_attempts=1)

    assert ("dead_letter", "RuntimeError") == (row.status, row.error["class"])
    assert open_before == len(os.listdir("/proc/self/fd"))


async def test_an_idle_child_ends(
    database_url: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some time without a task."""
    monkeypatch.setattr(children, "IDLE_SECONDS", 0.01)
    task_id = enqueue(connection, "process.whoami")

    serving = asyncio.create_task(new_worker(database_url).run())
    await until(lambda: status(connection, task_id) == "completed", "it is done")
    await until(lambda: not child_threads(), "its child has ended")
    await stopped(serving)


def test_arguments_are_built_in_the_child(database_url: str, connection: psycopg.Connection) -> None:
    """From the payload's text and the annotations. The worker does not build the user's classes."""
    payload = {
        "item": {"name": "lamp", "price": 12},
        "on": "2026-02-03",
        "at": "2026-02-03T04:05:06+01:00",
        "trap": {},
    }
    row = result(connection, database_url, "process.typed", payload=payload)

    assert [{"name": "lamp", "price": 12.0}, "date", "2026-02-03T03:05:06Z", True] == row.result


def test_a_payload_that_does_not_fit_is_a_dead_letter_at_once(
    database_url: str, connection: psycopg.Connection
) -> None:
    """Like with any other handler."""
    payloads: list[dict[str, Any]] = [{}, {"what": "x", "more": 1}, {"what": 5}]
    ids = [enqueue(connection, "process.give", payload=payload, max_attempts=3) for payload in payloads]
    run(database_url, concurrency=1)

    rows = [task(connection, task_id) for task_id in ids]
    assert [("dead_letter", "TypeError", 1)] * len(ids) == [
        (row.status, row.error["class"], row.attempt) for row in rows
    ]
    assert all(
        row.error["message"].startswith("the payload does not fit the handler process.give: ") for row in rows
    )


def test_a_child_knows_its_attempt(database_url: str, connection: psycopg.Connection) -> None:
    """All values of a context about the task."""
    metadata = Jsonb({"tenant": 7})
    row = result(
        connection, database_url, "process.told", payload={"key": "k"}, tags=["a", "b"], metadata=metadata
    )

    lease = row.result.pop("lease")
    assert isinstance(lease, int)
    assert {
        "id": row.id,
        "type": "process.told",
        "queue": "default",
        "attempt": 1,
        "max_attempts": 4,
        "tags": ["a", "b"],
        "metadata": {"tenant": 7},
        "cancelled": False,
    } == row.result


ENDINGS: dict[str, tuple[str, object, str | None]] = {
    "Retry": ("completed", "attempt 2", None),
    "Snooze": ("completed", "attempt 1", None),
    "Snooze nonsense": ("dead_letter", None, "ValueError"),
    "Cancel": ("cancelled", None, "Cancelled"),
    "Discard": ("dead_letter", None, "Discard"),
    "SystemExit": ("dead_letter", None, "SystemExit"),
    "Stubborn": ("dead_letter", None, "tests.worker.processing.Stubborn"),
    "Endless": ("dead_letter", None, "tests.worker.processing.Endless"),
}


def test_exceptions_and_signals_of_a_handler_come_back(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Signals keep their type and values. Exceptions come back as text, so none has to be pickled."""
    ids = {
        what: enqueue(
            connection,
            "process.throw",
            payload={"what": what},
            metadata=Jsonb({"marker": str(tmp_path / what)}),
        )
        for what in ENDINGS
    }
    run(database_url, concurrency=2)

    rows = {what: task(connection, task_id) for what, task_id in ids.items()}
    assert ENDINGS == {
        what: (row.status, row.result, None if row.status == "completed" else row.error["class"])
        for what, row in rows.items()
    }
    stubborn = rows["Stubborn"].error
    assert "first" == stubborn["message"]
    assert 'raise Stubborn("first", "second")' in stubborn["traceback"]
    assert "orchestrator/execute" not in stubborn["traceback"]
    assert "(its text could not be made within 2 s)" == rows["Endless"].error["message"]


def test_results_come_back_as_they_are(database_url: str, connection: psycopg.Connection) -> None:
    """Small results, large ones, none."""
    expected = {"": {"a": [1, 2.5, None, "\U0001f600"]}, "None": None, "much": "é\n" * 200_000}
    ids = {what: enqueue(connection, "process.give", payload={"what": what}) for what in expected}
    run(database_url, concurrency=1)

    rows = {what: task(connection, task_id) for what, task_id in ids.items()}
    assert {"completed"} == {row.status for row in rows.values()}
    assert expected == {what: row.result for what, row in rows.items()}


def test_a_result_that_cannot_be_stored_is_a_failed_attempt(
    database_url: str, connection: psycopg.Connection
) -> None:
    """The child refuses it, and sends only the reason."""
    reasons = {"ten megabytes": "result takes more than 10,000,000 bytes", "a set": "result is a set"}
    ids = {what: enqueue(connection, "process.give", payload={"what": what}) for what in reasons}
    run(database_url, concurrency=1)

    for what, reason in reasons.items():
        row = task(connection, ids[what])
        assert ("dead_letter", "orchestrator.errors.PayloadRefused") == (row.status, row.error["class"])
        assert row.error["message"].startswith(reason)


def test_a_child_has_no_access_to_the_workers_database(
    database_url: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its start its environment is the worker's without the secrets."""
    for name in ("ORCHESTRATOR_DATABASE_URL", "ORCHESTRATOR_WORKER_URL"):
        monkeypatch.setenv(name, "postgresql://hunter2@localhost/shop")
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    monkeypatch.setenv("PGAPPNAME", "shop")
    row = result(connection, database_url, "process.environment")

    assert "hunter2" not in str(row.result)
    assert "shop" == row.result["PGAPPNAME"]


def test_a_function_that_a_child_could_not_import_is_refused_when_declared(app: Orchestrator) -> None:
    """Lambdas, local functions, functions of the script itself, coroutines, and executors that do not exist."""

    def local() -> None: ...

    async def coroutine() -> None: ...

    def of_a_script() -> None: ...

    of_a_script.__module__, of_a_script.__qualname__ = "__main__", "of_a_script"
    for function in (local, lambda: None, of_a_script):
        with pytest.raises(RegistryError, match="a child process imports the function by its name"):
            app.task(name="x", executor="process")(function)
    for executor in ("process", "thread"):
        with pytest.raises(RegistryError, match="an async def runs on the event loop"):
            app.task(name="x", executor=executor)(coroutine)
    with pytest.raises(RegistryError, match="there is no executor 'fork'"):
        app.task(name="x", executor="fork")(local)  # type: ignore[call-overload]


def test_a_function_with_the_name_of_another_is_refused_when_the_worker_starts(
    app: Orchestrator,
) -> None:
    """Otherwise the child would run the other function."""

    def impostor() -> None: ...

    for name, reason in (
        ("write", "there is another function of this name"),
        ("gone", "has no attribute 'gone'"),
    ):
        other = Orchestrator()
        impostor.__module__, impostor.__qualname__ = "tests.worker.processing", name
        other.task(name="x", executor="process")(impostor)
        with pytest.raises(RegistryError, match=reason):
            other.worker(database_url="postgresql:///nowhere")


def test_enqueueing_needs_no_child(database_url: str, connection: psycopg.Connection) -> None:
    """A producer starts no child."""
    application = Orchestrator(database_url)
    handle = application.task(name="process.plain", executor="process")(processing.plain).enqueue()

    application.close()
    assert "pending" == status(connection, handle.id)
    assert [] == child_threads()


def test_a_plain_function_may_be_declared_from_elsewhere(
    database_url: str, connection: psycopg.Connection
) -> None:
    """Without a decorator the child finds the function itself."""
    application = Orchestrator(database_url, poll_seconds=1.0)
    handle = application.task(name="process.plain", executor="process")(processing.plain).enqueue()
    running.run_until_empty(application)
    application.close()

    assert "plain" == value(connection, "SELECT result FROM orchestrator.tasks WHERE id = %s", handle.id)
