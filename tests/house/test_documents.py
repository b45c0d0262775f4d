"""The rules for all texts: links work, nothing is unfinished, no path of a machine and no registry appears."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

FINISHED = ("orchestrator", "migrations", "docs", "README.md")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")

# Each name is split, because the rule reads this file too.
HOSTS = re.compile(
    "|".join(re.escape(host) for host in ("pypi" + ".org", "debian" + ".org", "registry" + ".npmjs"))
)
MACHINE_PATH = re.compile(r"(?<![\w.~/$}*-])/(?:" + "|".join(("work", "root", "home/\\w+")) + r")/")

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\s*\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
CODE = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[`~]*\s*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


def repository_files(root: Path) -> list[Path]:
    """Return every file that git tracks, or would add."""
    listed = subprocess.run(
        # The owner of a clone may be another user than the user who runs the tests, for example in a container.
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def broken_links(root: Path, files: Iterable[Path]) -> list[str]:
    """Name the relative links of Markdown files whose target does not exist."""
    return [
        f"{path.relative_to(root)}: {target}"
        for path in files
        if path.suffix == ".md"
        for groups in LINK.findall(CODE.sub("", path.read_text()))
        if not ADDRESS.match(target := "".join(groups)) and not leads_somewhere(root, path, target)
    ]


def leads_somewhere(root: Path, path: Path, target: str) -> bool:
    """Return whether a relative link leads to a file or folder inside the repository."""
    end = (path.parent / target.partition("#")[0]).resolve()
    return end.exists() and end.is_relative_to(root.resolve())


def lines_matching(root: Path, files: Iterable[Path], pattern: re.Pattern[str]) -> list[str]:
    """Name every line of these files that matches the pattern."""
    return [
        f"{path.relative_to(root)}:{number}: {found.group()}"
        for path in files
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if (found := pattern.search(line))
    ]


def finished_files(root: Path, files: Iterable[Path]) -> list[Path]:
    """Return the files of the product and its documentation. They must not contain unfinished lines."""
    return [path for path in files if path.relative_to(root).parts[0] in FINISHED]


def test_every_link_leads_somewhere() -> None:
    """After a document is renamed, update the links to it."""
    assert [] == broken_links(REPOSITORY, repository_files(REPOSITORY))


def test_nothing_unfinished_is_left() -> None:
    """Open work belongs in the tracker, not in the product."""
    files = finished_files(REPOSITORY, repository_files(REPOSITORY))

    assert [] == lines_matching(REPOSITORY, files, UNFINISHED)


def test_no_registry_host_is_named() -> None:
    """The machine that installs packages decides where they come from."""
    assert [] == lines_matching(REPOSITORY, repository_files(REPOSITORY), HOSTS)


def test_no_path_of_a_machine_is_named() -> None:
    """A path that exists on one machine is wrong on every other."""
    assert [] == lines_matching(REPOSITORY, repository_files(REPOSITORY), MACHINE_PATH)


def test_the_rules_read_new_files_too(tmp_path: Path) -> None:
    """A rule finds a fault before its commit. It skips the files that git ignores."""
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("ignored.txt\n")
    (tmp_path / "ignored.txt").touch()
    (tmp_path / "new.txt").touch()

    assert [".gitignore", "new.txt"] == sorted(path.name for path in repository_files(tmp_path))


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """The rule skips links inside code, because they are examples, and links to other sites."""
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text(
        "[a](page.md#part) [b](../gone.md) ![c](gone.png 'title') <br> [d](https://example.com) [e](#part)\n"
        "`[f](in-code.md)`\n\n```\n[g](in-block.md)\n```\n\n[h]: gone-too.md\n[i](../../outside.md)\n"
    )

    expected = [
        f"docs/page.md: {target}" for target in ("../gone.md", "gone.png", "gone-too.md", "../../outside.md")
    ]
    assert expected == broken_links(tmp_path, [page])


def test_an_unfinished_line_is_found(tmp_path: Path) -> None:
    """Tests and build files may contain the word; the product may not."""
    module, test = tmp_path / "orchestrator" / "claim.py", tmp_path / "tests" / "test_claim.py"
    for path in (module, test):
        path.parent.mkdir()
        path.write_text("x = 1\n# " + "TO" + "DO: all of it\n")

    found = lines_matching(tmp_path, finished_files(tmp_path, [module, test]), UNFINISHED)

    assert ["orchestrator/claim.py:2: TODO"] == found


@pytest.mark.parametrize("host", ["pypi" + ".org", "deb.debian" + ".org", "registry" + ".npmjs.org"])
def test_a_registry_host_is_found(tmp_path: Path, host: str) -> None:
    """The name may be a part of a longer host name."""
    path = tmp_path / "lock.txt"
    path.write_text(f"--index-url https://{host}/simple\n")

    assert 1 == len(lines_matching(tmp_path, [path], HOSTS))


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("cd /wo" + "rk/main", 1),
        ("'/ro" + "ot/.venv'", 1),
        ("file:///ho" + "me/somebody/x", 0),
        ("see /ho" + "me/somebody/x", 1),
        ("docs/wo" + "rk/page.md", 0),
        ("https://example.com/ro" + "ot/x", 0),
    ],
)
def test_a_path_of_a_machine_is_found(tmp_path: Path, line: str, count: int) -> None:
    """A part of a relative path, or of a URL, is no absolute path."""
    path = tmp_path / "notes.md"
    path.write_text(line)

    assert count == len(lines_matching(tmp_path, [path], MACHINE_PATH))


def test_the_tests_that_a_page_names_exist() -> None:
    """If a document names a test, a test of that name exists."""
    tests = "\n".join(path.read_text() for path in sorted((REPOSITORY / "tests").rglob("test_*.py")))
    missing = [
        f"{page.relative_to(REPOSITORY)}: {name}"
        for page in sorted((REPOSITORY / "docs").rglob("*.md"))
        for name in re.findall(r"`(test_\w+)`", page.read_text())
        if f"def {name}(" not in tests
    ]

    assert [] == missing
