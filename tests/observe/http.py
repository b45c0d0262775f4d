"""Send requests to a port, with urllib or byte by byte."""

import json
import socket
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from tests.patience import PATIENCE_SECONDS


class Got(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: str


def get(port: int, path: str, *, method: str = "GET", host: str = "127.0.0.1", accept: str = "*/*") -> Got:
    """Request a page."""
    where = f"http://{host}:{port}{path}"
    asked = urllib.request.Request(where, method=method, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own port
            return Got(answer.status, dict(answer.headers), answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Got(error.code, dict(error.headers), error.read().decode())


def numbers(port: int) -> dict[str, float]:
    """Return every served number, by its name and labels."""
    lines = [line for line in get(port, "/metrics").body.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def ready(port: int) -> tuple[int, dict[str, Any]]:
    """Return the answer of /readyz."""
    got = get(port, "/readyz")
    return got.status, json.loads(got.body)


def response_to(port: int, request: bytes) -> bytes:
    """Send these bytes. Return the whole answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as line:
        line.sendall(request)
        answer = b""
        while piece := line.recv(65_536):  # ends: the server closes
            answer += piece
        return answer
