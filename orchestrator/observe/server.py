"""A very small HTTP server on its own thread, for occasional requests by Prometheus and by probes.

A client may be faulty or hostile, and must not slow down a task. So the size and time of a request and the number of
requests at once are limited, each connection is closed after its answer, and only the first line and `Accept` of a
request are read. The server shares the interpreter with the handlers: a handler that holds the GIL delays it.
"""

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from orchestrator import events, forks
from orchestrator.errors import ConfigError

REQUEST_BYTES_MAX = 8_192
REQUEST_SECONDS = 5.0
REQUESTS_MAX = 32
# The time for the client to read the answer. Without it, data that the client still sends would reset the connection.
LINGER_SECONDS = 1.0
BACKLOG = 64
STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


Page = Callable[[str], Answer]
"""Makes an answer. Its argument is the client's `Accept` header."""


class Server:
    """Serves pages by their paths."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        self._host, self._port = host, port
        self._pages = pages
        self._open = 0
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="orchestrator metrics", daemon=True)

    def start(self) -> None:
        """Bind the port, and serve. Raises ConfigError if the port cannot be bound."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            self._socket = socket.create_server((self._host, self._port), family=family, backlog=BACKLOG)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "another process listens there" if taken else error.strerror or str(error)
            raise ConfigError(
                f"metrics cannot be served on port {self._port} of {self._host}: {why}; name another with "
                "--metrics-port or ORCHESTRATOR_METRICS_PORT"
                + ("" if taken else ", or another address with --metrics-host")
            ) from None
        forks.keep(self._socket)
        self._loop = asyncio.SelectorEventLoop()
        self._thread.start()
        events.emit(events.MetricsServed(self._host, self.port))

    @property
    def port(self) -> int:
        """The port that is bound."""
        return int(self._socket.getsockname()[1])

    def stop(self) -> None:
        """Stop serving."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._meet, sock=self._socket, limit=REQUEST_BYTES_MAX)
        await self._stopping.wait()
        server.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= REQUESTS_MAX:
            # No answer is sent: a refusal, and the wait until it is read, would cost as much as an answer.
            writer.transport.abort()
            return
        self._open += 1
        writer.transport.set_write_buffer_limits(0)  # to drain means that all of it has left us
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer, method = await self._answer(reader)
                writer.write(written(answer, method=method))
                await writer.drain()
                writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await reader.read(REQUEST_BYTES_MAX):  # ends: with the caller, or its second
                    pass
        except (OSError, TimeoutError, EOFError, asyncio.CancelledError):
            # The client is gone or too slow, or the server ends: no answer is possible. A cancellation is not raised
            # again: no code awaits this task, and Python 3.11 prints a traceback for one that ends as cancelled.
            pass
        finally:
            self._open -= 1
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Answer, str]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long"), ""
        first, *lines = head.decode("latin-1").split("\r\n")
        match first.split(" "):
            case [method, target, "HTTP/1.1" | "HTTP/1.0"] if target.startswith("/"):
                return self._page(method, target.partition("?")[0], accepted(lines)), method
            case _:
                return refusal(HTTPStatus.BAD_REQUEST, "this is no HTTP/1.1 request"), ""

    def _page(self, method: str, path: str, accept: str) -> Answer:
        if method not in ("GET", "HEAD"):
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        page = self._pages.get(path)
        if page is None:
            return refusal(HTTPStatus.NOT_FOUND, f"there is {', '.join(self._pages)}")
        try:
            return page(accept)
        except Exception as error:
            # The application's own metrics are in the same registry, and may raise any error.
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__} while this was made")


def accepted(lines: list[str]) -> str:
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "accept":
            return value.strip()
    return ""


def refusal(status: HTTPStatus, sentence: str) -> Answer:
    return Answer(f"{sentence}\n".encode(), status=status)


def written(answer: Answer, *, method: str) -> bytes:
    """Return an answer as bytes; for HEAD without its body."""
    status = answer.status
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-store",
        "Connection: close",
        *(["Allow: GET, HEAD"] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
    ]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if method == "HEAD" else head + answer.body
