"""Run a proxy between a worker and the server for the duration of a block."""

import json
import subprocess  # nosec B404 # each call says what it starts
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from orchestrator.bench.environment import Environment, NotMeasured
from orchestrator.demo.workers import last_output, spawned
from orchestrator.errors import DatabaseUnavailable
from orchestrator.postgres import connect

# The names of the connections that the leader opens for its duties.
LEADERS = ("orchestrator lead", "orchestrator housekeeping")
CLAIMS = "orchestrator claims"


class ProxyFailed(NotMeasured):
    """The server accepts no connection through a proxy; it may require TLS."""


class ProxyProcess:
    """A proxy's process. `info` is the conninfo of a connection through it."""

    def __init__(self, environment: Environment, *, delay_seconds: float = 0.0) -> None:
        self._environment = environment
        self._delay_seconds = delay_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = ExitStack()
        self.info = ""

    def __enter__(self) -> Self:
        server = self._environment.connection.info
        self._process = self._stack.enter_context(
            spawned("orchestrator.bench.proxy", log=self._environment.log)
        )
        try:
            where = {
                "host": server.hostaddr or server.host,
                "port": server.port,
                "delay_seconds": self._delay_seconds,
            }
            port = int(self._asked(json.dumps(where)))
            given: dict[str, Any] = conninfo_to_dict(self._environment.info)
            given.pop("hostaddr", None)
            given |= {"host": "127.0.0.1", "port": port, "sslmode": "disable", "gssencmode": "disable"}
            if server.password:
                # A password file has an entry for the server's host, not for the proxy's.
                given["password"] = server.password
            self.info = make_conninfo(**given)
            connect.open_sync(self.info).close()
        except DatabaseUnavailable as error:
            self._stack.close()
            raise ProxyFailed(f"the server accepts no connection without TLS: {error}") from None
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._stack.close()

    def counts(self) -> dict[str, dict[str, float]]:
        """Return for each name of connections: statements, round trips, seconds of waiting for answers."""
        return dict(json.loads(self._asked("")))

    def _asked(self, question: str) -> bytes:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise AssertionError("not entered")
        process.stdin.write(f"{question}\n".encode())
        process.stdin.flush()
        if not (answer := process.stdout.readline()):
            raise NotMeasured(f"the proxy has ended: {last_output(self._environment.log)}")
        return answer


def growth_of(
    what: str, before: dict[str, dict[str, float]], after: dict[str, dict[str, float]]
) -> dict[str, float]:
    """Return the growth of a count for each name of connections."""
    return {name: counts[what] - before.get(name, {}).get(what, 0) for name, counts in after.items()}
