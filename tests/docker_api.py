"""A stand-in for the Docker engine: its HTTP API on a Unix socket, and behind it a real PostgreSQL of this machine.

It answers the requests of testcontainers for one image: find it, create a container, start it, run a command in it,
look up its port, remove it. The server runs with the settings of the container's command, and a command in the
container runs on this machine with the container's variables. Images are not read. A container that is no PostgreSQL
(the reaper of testcontainers) has a port that accepts connections and does nothing.
"""

import json
import os
import re
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from tests.servers import Server

VERSION = {"Version": "28.0.0", "ApiVersion": "1.48", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}
STREAM_HEADER_BYTES = 8


@dataclass
class Container:
    """A container: what was asked for, and what runs for it."""

    asked: dict[str, Any]
    server: Server | None = None
    listener: socket.socket | None = None

    @property
    def environment(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self.asked.get("Env") or [])

    @property
    def port(self) -> int | None:
        """Its port on this machine; None before it is started."""
        if self.server is not None:
            return self.server.port
        return int(self.listener.getsockname()[1]) if self.listener is not None else None

    def inspected(self, number: str) -> dict[str, Any]:
        """What `docker inspect` shows of it."""
        started = self.port is not None
        binding = [{"HostIp": "127.0.0.1", "HostPort": str(self.port)}] if started else None
        return {
            "Id": number,
            "Name": f"/{number}",
            "Image": self.asked["Image"],
            "Config": self.asked,
            "State": {"Status": "running" if started else "created", "Running": started, "ExitCode": 0},
            "NetworkSettings": {"Ports": dict.fromkeys(self.asked["ExposedPorts"], binding), "Networks": {}},
        }


@dataclass
class Engine:
    """The engine's containers, the commands run in them, and each request that came."""

    binaries: Path
    directory: Path
    containers: dict[str, Container] = field(default_factory=dict)
    commands: dict[str, subprocess.CompletedProcess[bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def create(self, asked: dict[str, Any]) -> dict[str, Any]:
        number = f"{len(self.containers) + 1:064x}"
        self.containers[number] = Container(asked)
        return {"Id": number, "Warnings": []}

    def start(self, container: Container) -> None:
        if "POSTGRES_PASSWORD" not in container.environment:
            container.listener = socket.create_server(("127.0.0.1", 0))
            return
        words = container.asked["Cmd"]
        assert "postgres" == words[0], words
        settings = dict(word.split("=", 1) for word in words[1:] if word != "-c")
        container.server = Server(
            self.binaries, self.directory / container.environment["POSTGRES_USER"], settings=settings
        )
        container.server.superuser = container.environment["POSTGRES_USER"]
        container.server.start()

    def command(self, container: Container, asked: dict[str, Any]) -> dict[str, Any]:
        number = f"{len(self.commands) + 1:064x}"
        inside = {"PGPORT": str(container.port), "PATH": f"{self.binaries}:{os.environ['PATH']}"}
        self.commands[number] = subprocess.run(
            asked["Cmd"], env={**os.environ, **container.environment, **inside},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return {"Id": number}

    def remove(self, number: str) -> None:
        container = self.containers.pop(number)
        if container.server is not None:
            container.server.close()
        if container.listener is not None:
            container.listener.close()


class Request(BaseHTTPRequestHandler):
    """One request to the engine."""

    protocol_version = "HTTP/1.1"
    server: "Socket"

    def do_GET(self) -> None:
        self.route()

    def do_POST(self) -> None:
        self.route()

    def do_DELETE(self) -> None:
        self.route()

    def route(self) -> None:
        engine = self.server.engine
        path = re.sub(r"^/v[\d.]+", "", unquote(urlparse(self.path).path))
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        engine.asked.append(f"{self.command} {path}")
        match self.command, path.strip("/").split("/"):
            case "GET", ["version"]:
                self.answer(200, VERSION)
            case "GET", ["images", *name, "json"]:
                self.answer(200, {"Id": f"sha256:{'0' * 64}", "RepoTags": ["/".join(name)]})
            case "POST", ["containers", "create"]:
                self.answer(201, engine.create(body))
            case "GET", ["containers", number, "json"] if number in engine.containers:
                self.answer(200, engine.containers[number].inspected(number))
            case "POST", ["containers", number, "start"]:
                engine.start(engine.containers[number])
                self.answer(204)
            case "POST", ["containers", number, "exec"]:
                self.answer(201, engine.command(engine.containers[number], body))
            case "POST", ["exec", number, "start"]:
                self.stream(engine.commands[number].stdout)
            case "GET", ["exec", number, "json"]:
                self.answer(
                    200, {"ID": number, "ExitCode": engine.commands[number].returncode, "Running": False}
                )
            case "DELETE", ["containers", number]:
                engine.remove(number)
                self.answer(204)
            case _:
                self.answer(404, {"message": f"the stand-in does not know {self.command} {path}"})

    def answer(self, code: int, found: Any = None) -> None:
        body = b"" if found is None else json.dumps(found).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, output: bytes) -> None:
        """Send output as Docker does without a terminal: frames, each with its length, until the end."""
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.raw-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        if output:
            self.wfile.write(b"\x01\0\0\0" + len(output).to_bytes(STREAM_HEADER_BYTES // 2, "big") + output)

    def log_message(self, *_: object) -> None:
        """Keep quiet; the engine keeps what was asked."""


class Socket(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The Unix socket on which the engine listens."""

    daemon_threads = True
    engine: Engine


@contextmanager
def docker_engine(binaries: Path, directory: Path) -> Iterator[Engine]:
    """Run the stand-in on `docker.sock` of a directory; what a test leaves running is removed with it."""
    engine = Engine(binaries, directory)
    with Socket(str(directory / "docker.sock"), Request) as listener:
        listener.engine = engine
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            yield engine
        finally:
            listener.shutdown()
            thread.join()
            for number in list(engine.containers):
                engine.remove(number)
