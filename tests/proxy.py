"""A proxy between a client and a server. It can be slow, refuse connections, or cut one at the worst moment.

    with Proxy(database_url) as proxy:
        proxy.cut_after(b"COMMIT")      # the server executes it, and its answer is lost
        connection = psycopg.connect(proxy.url)

Plain TCP: it reads bytes, not the protocol, except for the end of an answer. `heal` undoes everything.
"""

import socket
import threading
import time
from contextlib import suppress
from typing import Self

from psycopg.conninfo import conninfo_to_dict

ANSWERED = b"Z\x00\x00\x00\x05"  # ReadyForQuery, but for the letter that ends it
CHUNK_BYTES = 65_536


class Link:
    """One client's connection through the door: two sockets, and a thread for each way."""

    def __init__(self, proxy: "Proxy", client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self.client = client
        self.server = server
        self.doomed = False
        for way in (self._forth, self._back):
            threading.Thread(target=way, daemon=True).start()

    def cut(self) -> None:
        """Close both sides at once."""
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _forth(self) -> None:
        with suppress(OSError):
            while data := self.client.recv(CHUNK_BYTES):
                if self._proxy.notices(self._proxy.before, data):
                    break
                self.doomed = self.doomed or self._proxy.notices(self._proxy.after, data)
                if self._proxy.lets_through():
                    self.server.sendall(data)
        self.cut()

    def _back(self) -> None:
        with suppress(OSError):
            while data := self.server.recv(CHUNK_BYTES):
                # Not the answers on the way there: asyncpg waits for that of its Parse before it goes on.
                if self.doomed and data[-6:-1] == ANSWERED:
                    break
                if self._proxy.lets_through():
                    self.client.sendall(data)
        self.cut()
        self._proxy.forget(self)
        self.client.close()
        self.server.close()


class Proxy:
    """Listens on a loopback port, and connects to where a URL leads."""

    link = Link

    def __init__(self, url: str) -> None:
        given = conninfo_to_dict(url)
        self._host, self._port = str(given.get("host") or "127.0.0.1"), int(given.get("port") or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = (
            f"postgresql://{given.get('user')}@127.0.0.1:{self._listener.getsockname()[1]}/{given['dbname']}"
        )
        self.links: list[Link] = []
        self.before: list[bytes] = []
        self.after: list[bytes] = []
        self.delay_seconds = 0.0
        self.silent = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # which ends accept()
        self._listener.close()
        self.heal()
        self.cut()

    def cut(self) -> None:
        """End all connections; new ones are let in."""
        for link in tuple(self.links):
            link.cut()
        self.links.clear()

    def forget(self, link: Link) -> None:
        """A connection is over."""
        with suppress(ValueError):
            self.links.remove(link)

    def cut_before(self, words: bytes) -> None:
        """End the next connection that says these words, before the server hears them."""
        self.before.append(words)

    def cut_after(self, words: bytes) -> None:
        """End the next connection that says these words, once the server has answered: the answer is lost."""
        self.after.append(words)

    def swallow(self) -> None:
        """Be a black hole: connections stand, and nothing comes through either way."""
        self.silent = True

    def delay(self, seconds: float) -> None:
        """Let everything through only after so long, each way."""
        self.delay_seconds = seconds

    def heal(self) -> None:
        """Be a plain door again; what was swallowed stays lost."""
        self.before.clear()
        self.after.clear()
        self.delay_seconds, self.silent = 0.0, False

    def lets_through(self) -> bool:
        """Wait as long as was said, and tell whether the data may pass."""
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
        return not self.silent

    def notices(self, words: list[bytes], data: bytes) -> bool:
        """Tell whether the data hold any of these words, which then count no more."""
        found = [word for word in words if word in data]
        for word in found:
            words.remove(word)
        return bool(found)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.links.append(self.link(self, client, self._connected()))

    def _connected(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server
