"""A line to the server that may be long, and that counts what is said on it: a process of its own between a worker and
the server.

The delay is added to everything, each way, without holding up what follows: a chunk goes on so long after it came. What
a client says is counted by the names that its connections give themselves (application_name): statements are messages
of the protocol, Query and Execute, so this is exact, whatever the client thinks. Without TLS, which nobody in between
could read.

    stdin   a line of JSON: where to, and the delay; then an empty line each time the counts are asked for
    stdout  the port; then a line of JSON for each question
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
# But for its last byte, the state of the transaction. Looked for among the bytes: to follow all messages would cost
# more than is measured, and text holds no zeros.
READY_FOR_QUERY = b"Z\x00\x00\x00\x05"


class Count:
    """What the connections of one name have said and waited for."""

    def __init__(self) -> None:
        self.statements = 0
        self.round_trips = 0
        self.waited_seconds = 0.0


class Line:
    """One connection: follows the client's messages, and the end of each answer."""

    def __init__(self, counts: dict[str, Count]) -> None:
        self._counts = counts
        self._count: Count | None = None
        self._unread = bytearray()
        self._skip = 0
        self._tail = b""
        self._asked = 0
        self._asked_at = 0.0

    def said(self, data: bytes) -> None:
        """Take what the client says."""
        self._unread += data
        if self._count is None and not self._introduced():
            return
        # Ends: each turn takes bytes away, or there is no whole header.
        while True:
            skipped = min(self._skip, len(self._unread))
            del self._unread[:skipped]
            self._skip -= skipped
            if self._skip or len(self._unread) < HEADER_BYTES:
                return
            self._skip = 1 + int.from_bytes(self._unread[1:HEADER_BYTES])
            self._message(self._unread[0])

    def answered(self, data: bytes) -> None:
        """Take what the server says: with the last answer that is awaited a round trip ends."""
        ready = (self._tail + data).count(READY_FOR_QUERY)
        self._tail = (self._tail + data[-len(READY_FOR_QUERY) :])[1 - len(READY_FOR_QUERY) :]
        if self._count is None or not self._asked or not ready:
            return
        self._asked = max(0, self._asked - ready)
        if not self._asked:
            self._count.round_trips += 1
            self._count.waited_seconds += time.perf_counter() - self._asked_at

    def _introduced(self) -> bool:
        """Read the first message, which has no type, and the name in it."""
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
    """Accepts connections, and leads each to the server."""

    def __init__(self, host: str, port: int, delay_seconds: float) -> None:
        self._host = host
        self._port = port
        self._delay_seconds = delay_seconds
        self._counts: dict[str, Count] = {}

    async def run(self, ask: asyncio.StreamReader, tell: Callable[[str], None]) -> None:
        """Serve until standard input ends."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        tell(str(server.sockets[0].getsockname()[1]))
        while await ask.readline():
            tell(json.dumps({name: vars(count) for name, count in self._counts.items()}))

    async def _serve(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        try:
            far_in, far_out = await self._connect()
        except OSError:
            near_out.close()
            return
        line = Line(self._counts)
        ways = [self._pump(near_in, far_out, line.said), self._pump(far_in, near_out, line.answered)]
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
            return  # One end broke; the other is closed by our caller.


async def main() -> None:
    """Read where to, and serve."""
    ask = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(ask), sys.stdin)
    given: dict[str, Any] = json.loads(await ask.readline())
    await Proxy(given["host"], given["port"], given["delay_seconds"]).run(ask, tell)


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # epoll counts milliseconds, and would make two of a half one; select counts microseconds.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(main())
