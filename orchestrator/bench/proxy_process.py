"""Put a proxy between a worker and the server, for as long as a block lasts."""

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

# Of the connections that a worker opens for its duties as the leader.
LEADERS = ("orchestrator lead", "orchestrator housekeeping")
CLAIMS = "orchestrator claims"


class ProxyFailed(NotMeasured):
    """The server takes no connection through a proxy: it may insist on TLS."""


class ProxyProcess:
    """A proxy's process; `info` leads through it."""

    def __init__(self, environment: Environment, *, delay_seconds: float = 0.0) -> None:
        self._ground = environment
        self._delay_seconds = delay_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = ExitStack()
        self.info = ""

    def __enter__(self) -> Self:
        server = self._ground.connection.info
        self._process = self._stack.enter_context(spawned("orchestrator.bench.proxy", log=self._ground.log))
        try:
            where = {
                "host": server.hostaddr or server.host,
                "port": server.port,
                "delay_seconds": self._delay_seconds,
            }
            port = int(self._asked(json.dumps(where)))
            given: dict[str, Any] = conninfo_to_dict(self._ground.info)
            given.pop("hostaddr", None)
            given |= {"host": "127.0.0.1", "port": port, "sslmode": "disable", "gssencmode": "disable"}
            if server.password:
                given["password"] = (
                    server.password
                )  # by hand: a password file names the server's host, not ours
            self.info = make_conninfo(**given)
            connect.open_sync(self.info).close()
        except DatabaseUnavailable as error:
            self._stack.close()
            raise ProxyFailed(f"the server takes no connection without TLS: {error}") from None
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._stack.close()

    def counts(self) -> dict[str, dict[str, float]]:
        """Return, by the names of connections: statements, round trips, seconds waited for answers."""
        return dict(json.loads(self._asked("")))

    def _asked(self, question: str) -> bytes:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise AssertionError("not entered")
        process.stdin.write(f"{question}\n".encode())
        process.stdin.flush()
        if not (answer := process.stdout.readline()):
            raise NotMeasured(f"the proxy has ended: {last_output(self._ground.log)}")
        return answer


def said(
    before: dict[str, dict[str, float]], after: dict[str, dict[str, float]], what: str
) -> dict[str, float]:
    """Return by how much a count has grown, by the names of connections."""
    return {name: counts[what] - before.get(name, {}).get(what, 0) for name, counts in after.items()}
