"""The small HTTP server: its answers, and bad clients."""

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from orchestrator import ConfigError
from orchestrator.observe import server as module
from orchestrator.observe.server import Answer, Server
from tests.observe.http import get, response_to
from tests.patience import PATIENCE_SECONDS

BIG = b"x" * 3_000_000


def broken(_accept: str) -> Answer:
    """A page that cannot be made."""
    raise ValueError("hunter2")


@pytest.fixture
def served() -> Iterator[Server]:
    """A server with a few pages."""
    server = Server(
        "127.0.0.1",
        0,
        {
            "/page": lambda accept: Answer(f"for {accept}".encode()),
            "/big": lambda _: Answer(BIG),
            "/broken": broken,
        },
    )
    server.start()
    yield server
    server.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "orchestrator metrics"]


def test_a_page_is_served_with_its_content_type(served: Server) -> None:
    """With its length and type, uncached; the query is ignored."""
    got = get(served.port, "/page?a=b", accept="text/plain")

    assert (200, "for text/plain") == (got.status, got.body)
    assert ("nosniff", "no-store", "close") == tuple(
        got.headers[name] for name in ("X-Content-Type-Options", "Cache-Control", "Connection")
    )


def test_a_head_is_a_page_without_its_body(served: Server) -> None:
    """Its length is that of the page."""
    got = get(served.port, "/big", method="HEAD")

    assert (200, str(len(BIG)), "") == (got.status, got.headers["Content-Length"], got.body)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_but_get_and_head(served: Server, method: str) -> None:
    """No page changes anything."""
    got = get(served.port, "/page", method=method)

    assert (405, "GET, HEAD") == (got.status, got.headers["Allow"])


def test_an_unknown_page_lists_the_pages(served: Server) -> None:
    """A person who tries the port finds the pages."""
    assert (404, "there is /page, /big, /broken\n") == get(served.port, "/")[::2]


def test_a_page_that_fails_harms_no_other(served: Server) -> None:
    """The answer names the class of the error, without its text."""
    assert (500, "ValueError while this was made\n") == get(served.port, "/broken")[::2]
    assert 200 == get(served.port, "/page").status


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /page HTTP/9.9\r\n\r\n", b"400"),
        (b"GET page HTTP/1.1\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
        (b"GET  /page HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /page HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
        (b"x" * 100_000, b"431"),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /page HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"405"),
    ],
)
def test_a_bad_request_is_refused(served: Server, request_: bytes, status: bytes) -> None:
    """The answer says what is wrong, and the server goes on."""
    assert response_to(served.port, request_).startswith(b"HTTP/1.1 " + status)
    assert 200 == get(served.port, "/page").status


def test_a_client_that_disconnects_early_is_forgotten(served: Server) -> None:
    """Before its request, during it, and before it has read the answer."""
    for request in (b"", b"GET /pa", b"GET /big HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", served.port)) as line:
            line.sendall(request)

    assert 200 == get(served.port, "/page").status


def test_a_slow_client_delays_no_other(served: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that send nothing get no answer and are disconnected after a while. Others are served meanwhile."""
    monkeypatch.setattr(module, "REQUEST_SECONDS", 2.0)
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=30))
            for _ in range(module.REQUESTS_MAX - 1)
        ]
        for line in crowd:
            line.sendall(b"GET /page HTTP/1.1\r\nX: ")
        assert 200 == get(served.port, "/page").status
        assert [b""] * len(crowd) == [line.recv(100) for line in crowd]


def test_connections_beyond_the_limit_are_closed(served: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer; they hold no descriptor."""
    monkeypatch.setattr(module, "REQUEST_SECONDS", 2 * PATIENCE_SECONDS)
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_SECONDS)
            )
            for _ in range(module.REQUESTS_MAX + 1)
        ]
        with suppress(ConnectionResetError):
            assert b"" == crowd[-1].recv(1)


def test_many_at_once_get_whole_answers(served: Server) -> None:
    """Long ones, too."""
    with ThreadPoolExecutor(8) as crowd:
        lengths = [len(got.body) for got in crowd.map(lambda _: get(served.port, "/big"), range(16))]

    assert [len(BIG)] * 16 == lengths


def test_open_connections_are_closed_silently_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """Without a log line or a traceback."""
    server = Server("127.0.0.1", 0, {"/page": lambda _: Answer(b"")})
    server.start()
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        get(server.port, "/page")  # by then it has met the other one, too
        server.stop()
        line.settimeout(PATIENCE_SECONDS)
        assert b"" == line.recv(1)

    assert [] == caplog.records


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # from Python 3.12 on: it has threads
def test_a_process_that_a_handler_forks_does_not_keep_the_port() -> None:
    """Even if it lives long: the next worker can take the port."""
    first = Server("127.0.0.1", 0, {})
    first.start()
    port = first.port
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if (child := os.fork()) == 0:
            theirs.sendall(b"forked")
            ours.close()
            theirs.recv(1)  # ends: with the parent's
            os._exit(0)
        try:
            ours.recv(6)
            first.stop()
            second = Server("127.0.0.1", port, {})
            second.start()
            second.stop()
        finally:
            ours.shutdown(socket.SHUT_RDWR)
            os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("127.0.0.1", "another process listens there"),
        ("192.0.2.1", "--metrics-host"),
        ("nowhere.invalid", "--metrics-host"),
    ],
)
def test_a_port_that_is_not_available_is_a_sentence(served: Server, host: str, sentence: str) -> None:
    """Before anything else happens."""
    with pytest.raises(ConfigError, match=sentence):
        Server(host, served.port, {}).start()
