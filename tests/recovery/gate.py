"""A proxy that can be closed: it refuses connections, or it drops every packet like a real black hole.

The black hole of tests/proxy.py swallows data, but its kernel still acknowledges every packet, so the guards of a
connection (tcp_user_timeout, keepalives) notice nothing. Here a socket filter drops the packets themselves: no
acknowledgement, no answer to a probe, no SYN-ACK. Linux; needs no rights.
"""

import ctypes
import socket
import struct
from contextlib import suppress

from tests.proxy import Link, Proxy

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
BPF_RETURN = 0x06
# One instruction: return 0, keep nothing of the packet.
PROGRAM = ctypes.create_string_buffer(struct.pack("HBBI", BPF_RETURN, 0, 0, 0))
FILTER = struct.pack("@HP", 1, ctypes.addressof(PROGRAM))


class Gate(Proxy):
    """A proxy that can drop everything."""

    def __init__(self, url: str) -> None:
        self.connection_attempts = 0
        self._shut = False
        super().__init__(url)

    def shut(self) -> None:
        """End all connections, and refuse new ones: the server is away."""
        self._shut = True
        self.cut()

    def open(self) -> None:
        """Allow connections again."""
        self._shut = False

    def drop(self) -> None:
        """Drop every packet from now on, without any error. The server keeps its sessions."""
        for end in (self._listener, *(link.client for link in tuple(self.links))):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, FILTER)

    def restore(self) -> None:
        """Let packets pass again. Neither side knows the old connections any more."""
        with suppress(OSError):
            self._listener.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connection_attempts += 1
                if (server := self._reached()) is None:
                    client.close()
                else:
                    self.links.append(Link(self, client, server))

    def _reached(self) -> socket.socket | None:
        if self._shut:
            return None
        try:
            return self._connected()
        except OSError:
            return None
