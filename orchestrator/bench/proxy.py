"""A proxy between a worker and the server, in a process of its own. It delays data and counts statements.

The proxy forwards each chunk after the delay, in both directions. A chunk does not hold up the next one. The proxy
counts statements per application_name of the connection. A statement is a Query or Execute message of the protocol, so
the count is exact. The connection has no TLS, because the proxy could not read it.

    stdin   a line of JSON: the server's address and the delay; then an empty line for each request of the counts
    stdout  the port; then a line of JSON for each request
"""

import asyncio
import json
import selectors
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

CHUNK_BYTES = 65_536
HEADER_BYTES = 5
# Without its last byte, the state of the transaction. The proxy searches the bytes for it: to parse all messages would
# cost more than the work that is measured. A text contains no zero bytes, so there is no false match in one.
READY_FOR_QUERY = b"Z\x00\x00\x00\x05"


class Count:
    """The statements, the round trips and the waiting time of the connections with one name."""

    def __init__(self) -> None:
        self.statements = 0
        self.round_trips = 0
        self.waited_seconds = 0.0


class Line:
    """One connection: parses the client's messages and finds the end of each answer."""

    def __init__(self, counts: dict[str, Count]) -> None:
        self._counts = counts
        self._count: Count | None = None
        self._unread = bytearray()
        self._skip = 0
        self._tail = b""
        self._asked = 0
        self._asked_at = 0.0

    def client_sent(self, data: bytes) -> None:
        """Parse what the client sends."""
        self._unread += data
        if self._count is None and not self._introduced():
            return
        # Ends: each turn consumes bytes, or the header is not complete.
        while True:
            skipped = min(self._skip, len(self._unread))
            del self._unread[:skipped]
            self._skip -= skipped
            if self._skip or len(self._unread) < HEADER_BYTES:
                return
            self._skip = 1 + int.from_bytes(self._unread[1:HEADER_BYTES])
            self._message(self._unread[0])

    def server_sent(self, data: bytes) -> None:
        """Search what the server sends. A round trip ends with the last outstanding answer."""
        ready = (self._tail + data).count(READY_FOR_QUERY)
        self._tail = (self._tail + data[-len(READY_FOR_QUERY) :])[1 - len(READY_FOR_QUERY) :]
        if self._count is None or not self._asked or not ready:
            return
        self._asked = max(0, self._asked - ready)
        if not self._asked:
            self._count.round_trips += 1
            self._count.waited_seconds += time.perf_counter() - self._asked_at

    def _introduced(self) -> bool:
        """Read the first message and the name in it. The first message has no type."""
        if len(self._unread) < 4 or len(self._unread) < (length := int.from_bytes(self._unread[:4])):
            return False
        words = bytes(self._unread[8:length]).split(b"\0")
        del self._unread[:length]
        given = dict(zip(words[::2], words[1::2], strict=False))
        name = given.get(b"application_name", b"").decode(errors="replace")
        self._count = self._counts.setdefault(name, Count())
        return True

    def _message(self, kind: int) -> None:
        if self._count is not None and kind in b"QE":
            self._count.statements += 1
        if kind in b"QS":
            if not self._asked:
                self._asked_at = time.perf_counter()
            self._asked += 1


class Proxy:
    """Accepts connections and forwards each to the server."""

    def __init__(self, host: str, port: int, delay_seconds: float) -> None:
        self._host = host
        self._port = port
        self._delay_seconds = delay_seconds
        self._counts: dict[str, Count] = {}

    async def run(self, ask: asyncio.StreamReader, write_line: Callable[[str], None]) -> None:
        """Serve until standard input ends."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        write_line(str(server.sockets[0].getsockname()[1]))
        while await ask.readline():
            write_line(json.dumps({name: vars(count) for name, count in self._counts.items()}))

    async def _serve(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        try:
            far_in, far_out = await self._connect()
        except OSError:
            near_out.close()
            return
        line = Line(self._counts)
        ways = [
            self._pump(near_in, far_out, line.client_sent),
            self._pump(far_in, near_out, line.server_sent),
        ]
        await asyncio.wait([asyncio.ensure_future(way) for way in ways], return_when=asyncio.FIRST_COMPLETED)
        for writer in (near_out, far_out):
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._host.startswith(("/", "@")):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        return await asyncio.open_connection(self._host, self._port)

    async def _pump(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, look: Callable[[bytes], None]
    ) -> None:
        under_way = deque[bytes]()
        loop = asyncio.get_running_loop()

        def arrive() -> None:
            to.write(under_way.popleft())

        try:
            while data := await source.read(CHUNK_BYTES):
                look(data)
                if self._delay_seconds:
                    under_way.append(data)
                    loop.call_later(self._delay_seconds, arrive)
                else:
                    to.write(data)
        except OSError:
            return  # One side has closed; our caller closes the other.


async def main() -> None:
    """Read the server's address, and serve."""
    ask = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(ask), sys.stdin)
    given: dict[str, Any] = json.loads(await ask.readline())
    await Proxy(given["host"], given["port"], given["delay_seconds"]).run(ask, write_line)


def write_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # epoll waits in whole milliseconds, so it would turn 0.5 ms into 1 ms or more; select waits in microseconds.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(main())
