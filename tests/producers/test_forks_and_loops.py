"""Processes that fork, event loops that come and go, and connections with another encoding."""

import asyncio
import os
import signal
import threading
import time

import psycopg
import pydantic
import pytest

from orchestrator import Orchestrator, PayloadRefused
from orchestrator.postgres import pools
from tests.conftest import MakeApp
from tests.worker.running import run_until_empty, value

# A child that hangs ends after this.
CHILD_SECONDS = 60
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'orchestrator producer'"


def test_a_forked_child_has_connections_of_its_own(app: Orchestrator, connection: psycopg.Connection) -> None:
    """Parent and child enqueue at the same time, and each gets the ids of its own tasks."""

    @app.task(name="note")
    async def note(who: str) -> None: ...

    note.enqueue(who="before")
    child = os.fork()
    if child == 0:
        try:
            right = all(note.enqueue(who="child").refresh().type == "note" for _ in range(50))
        finally:
            os._exit(0 if right else 1)
    ids = [note.enqueue(who="parent").id for _ in range(50)]
    _, status = os.waitpid(child, 0)
    ids.append(note.enqueue(who="parent").id)

    assert 0 == status
    of_parent = "SELECT array_agg(id ORDER BY id) FROM orchestrator.tasks WHERE payload ->> 'who' = 'parent'"
    assert ids == value(connection, of_parent)
    assert 50 == value(
        connection, "SELECT count(*) FROM orchestrator.tasks WHERE payload ->> 'who' = 'child'"
    )


def test_a_child_that_is_forked_while_a_thread_enqueues_can_enqueue(app: Orchestrator) -> None:
    """With any locks that the thread holds at that moment."""

    @app.task(name="note")
    async def note() -> None: ...

    stop = threading.Event()

    def enqueue_for_ever() -> None:
        while not stop.is_set():
            with pools.FORKED:  # the rest of an enqueue is not at fault
                os.getpid()  # here another thread gets its turn

    thread = threading.Thread(target=enqueue_for_ever)
    thread.start()
    statuses = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            signal.alarm(CHILD_SECONDS)
            try:
                note.enqueue()
            finally:
                os._exit(0)
        statuses.append(os.waitpid(child, 0)[1])
    stop.set()
    thread.join()

    assert [0] * 10 == statuses


def test_loops_that_have_ended_leave_no_connection(app: Orchestrator, connection: psycopg.Connection) -> None:
    """One `asyncio.run` after another, as async_to_sync makes them."""

    @app.task(name="note")
    async def note() -> None: ...

    for _ in range(20):
        asyncio.run(note.aenqueue())

    assert 2 >= value(connection, SESSIONS)
    # The last one's.
    asyncio.run(note.aenqueue())
    asyncio.run(app.aclose())


class Aliased(pydantic.BaseModel):
    """A model with an alias and a computed field."""

    model_config = pydantic.ConfigDict(extra="forbid")

    user_id: int = pydantic.Field(alias="userId")
    count: int = pydantic.Field(1, alias="Count")

    @pydantic.computed_field  # type: ignore[prop-decorator]  # as pydantic's own documentation has it
    @property
    def doubled(self) -> int:
        return 2 * self.count


class Masked(pydantic.BaseModel):
    """A model that does not show all its values."""

    password: pydantic.SecretStr


def test_a_model_with_aliases_comes_back_equal(app: Orchestrator) -> None:
    """It is written with the names of its fields, without computed ones, and can be read by alias, too."""
    seen: list[Aliased] = []

    @app.task(name="take", max_attempts=1)
    async def take(model: Aliased) -> None:
        seen.append(model)

    take.enqueue(model=Aliased(userId=7, Count=4))
    app.enqueue("take", {"model": {"userId": 7, "Count": 4}})
    run_until_empty(app)

    assert [Aliased(userId=7, Count=4)] * 2 == seen


def test_a_model_that_masks_a_field_is_refused(app: Orchestrator) -> None:
    """At the enqueue: the handler would get the mask."""

    @app.task(name="take")
    async def take(model: Masked) -> None: ...

    with pytest.raises(
        PayloadRefused, match=r"payload\.model is a Masked that would not come back equal"
    ) as caught:
        take.enqueue(model=Masked(password=pydantic.SecretStr("hunter2")))

    assert "hunter2" not in str(caught.value)


def test_a_connection_that_speaks_latin1_takes_any_text(
    app: Orchestrator, connection: psycopg.Connection, database_url: str
) -> None:
    """The payload is sent in ASCII."""

    @app.task(name="note")
    async def note(text: str) -> None: ...

    with psycopg.connect(database_url, client_encoding="latin1", autocommit=True) as caller:
        handle = note.using(caller).enqueue(text="10 € 🙂")

    query = "SELECT payload ->> 'text' FROM orchestrator.tasks WHERE id = %s"
    assert "10 € 🙂" == value(connection, query, handle.id)


def test_a_call_that_does_not_wait_does_not_wait_for_a_connection(make_app: MakeApp) -> None:
    """With a used-up pool, timeout 0 raises TimeoutError at once."""
    app = make_app(pool_size=1)

    @app.task(name="note")
    async def note() -> None: ...

    handle = note.enqueue()
    with app._producer.pools.connection():
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match="became free"):
            handle.result(timeout=0)
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize("timeout", [float("nan"), -1, "soon", True])
def test_an_invalid_timeout_is_refused(app: Orchestrator, timeout: float) -> None:
    """Instead of an endless wait."""
    with pytest.raises(ValueError, match="timeout is"):
        app.handle(1).result(timeout=timeout)
