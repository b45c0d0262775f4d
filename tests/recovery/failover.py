"""A primary, a standby that follows it, and a producer that writes an order together with every task, in one
transaction.

A failover that loses transactions loses both: the remaining orders are those of the remaining tasks.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import LiteralString

import psycopg

from orchestrator.postgres import embedded_folder
from tests import servers
from tests.patience import eventually
from tests.recovery.environment import Environment
from tests.recovery.gate import Gate
from tests.servers import Server
from tests.standby import Standby, either

TABLES: LiteralString = """
CREATE TABLE orders (key text PRIMARY KEY);
CREATE TABLE ledger (task_id bigint NOT NULL, key text NOT NULL)
"""
ENQUEUE: LiteralString = """
SELECT orchestrator.enqueue(
    'drill.book', jsonb_build_object('key', %(key)s::text), queue => %(queue)s, max_attempts => 1000
)
"""


class Pair:
    """Two servers. `line` is the proxy for replication."""

    def __init__(self, primary: Server, standby: Standby, line: Gate) -> None:
        self.primary = primary
        self.standby = standby
        self.line = line
        self.url = either(primary, standby)

    def make_synchronous(self) -> None:
        """Let every durable commit wait for the standby."""
        self.set("synchronous_standby_names = 'standby'")
        eventually(lambda: self._is("sync"), "the standby is synchronous")

    def set(self, setting: LiteralString) -> None:
        """Change a setting of the primary, for all its sessions."""
        with psycopg.connect(self.primary.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET " + setting)
            connection.execute("SELECT pg_reload_conf()")

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        self.primary.kill()
        self.standby.promote()

    def _is(self, state: str) -> bool:
        with psycopg.connect(self.primary.url(), autocommit=True) as connection:
            return connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() == [(state,)]


@contextmanager
def pair() -> Iterator[Pair]:
    """Yield a primary with the tables, and its standby, both running."""
    with servers.temporary_directory() as directory, ExitStack() as stack:
        primary = stack.enter_context(servers.private(embedded_folder.binaries()))
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            connection.execute(TABLES)
        line = stack.enter_context(Gate(primary.url()))
        standby = Standby(primary, directory / "standby", through=line.url)
        stack.callback(close, standby)
        standby.start()
        yield Pair(primary, standby, line)


def close(standby: Standby) -> None:
    if standby.directory.exists():
        standby.close()


class Producer:
    """Writes an order and enqueues its task, until it is stopped. Records which answers it got."""

    def __init__(self, url: str, *, queue: str = "default") -> None:
        self._url = url
        self._queue = queue
        self._over = threading.Event()
        self.acknowledged: set[str] = set()
        self.in_doubt: set[str] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Producer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def reached(self, number: int) -> bool:
        """Return whether this number of orders has been acknowledged."""
        return len(self.acknowledged) >= number

    def _run(self) -> None:
        number = 0
        # Ends with the `with` block.
        while not self._over.is_set():
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(self._url, connect_timeout=2) as connection,
            ):
                while not self._over.wait(0.002):
                    number += 1
                    key = f"order-{number}"
                    self.in_doubt.add(key)
                    order(connection, key, self._queue)
                    self.acknowledged.add(key)
                    self.in_doubt.discard(key)
            self._over.wait(0.02)


def order(connection: psycopg.Connection, key: str, queue: str = "default") -> None:
    """Write an order and its task, durably."""
    with connection.transaction():
        connection.execute("INSERT INTO orders (key) VALUES (%s)", [key])
        connection.execute(ENQUEUE, {"key": key, "queue": queue})


def orders(environment: Environment) -> set[str]:
    """Return the existing orders."""
    return {key for (key,) in environment.ask("SELECT key FROM orders")}


def tasks(environment: Environment) -> list[str]:
    """Return the orders of the existing tasks."""
    rows = environment.ask("SELECT payload ->> 'key' FROM orchestrator.tasks WHERE type = 'drill.book'")
    return sorted(key for (key,) in rows)


def entries(environment: Environment) -> list[str]:
    """Return the orders in the handlers' ledger."""
    return sorted(key for (key,) in environment.ask("SELECT key FROM ledger"))


def is_drained(environment: Environment) -> bool:
    """Return whether every order has been processed."""
    return not environment.ask("SELECT 1 FROM orchestrator.tasks_live WHERE type = 'drill.book' LIMIT 1")


class ClosableUrl:
    """A URL of the current primary, through proxies that can be closed."""

    def __init__(self, both: Pair) -> None:
        self._gates = [Gate(server.url()) for server in (both.primary, both.standby)]
        hosts = ",".join(gate.url.partition("@")[2].partition("/")[0] for gate in self._gates)
        self.url = f"{both.url.partition('@')[0]}@{hosts}/{both.url.rpartition('/')[2]}"

    def __enter__(self) -> "ClosableUrl":
        return self

    def __exit__(self, *_: object) -> None:
        for gate in self._gates:
            gate.__exit__()

    def shut(self) -> None:
        """End all connections, and refuse new ones."""
        for gate in self._gates:
            gate.shut()

    def open(self) -> None:
        """Allow connections again."""
        for gate in self._gates:
            gate.open()
