"""The rules for every text: links that work, nothing unfinished, no paths of a machine."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

FINISHED = ("orchestrator", "migrations", "docs", "README.md")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")

# Written in halves, for this file is read by its own rule.
HOSTS = re.compile(
    "|".join(re.escape(host) for host in ("pypi" + ".org", "debian" + ".org", "registry" + ".npmjs"))
)
MACHINE_PATH = re.compile(r"(?<![\w.~/$}*-])/(?:" + "|".join(("work", "root", "home/\\w+")) + r")/")

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\s*\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
CODE = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[`~]*\s*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


def repository_files(root: Path) -> list[Path]:
    """Return every file that is, or is about to be, tracked."""
    listed = subprocess.run(
        # A clone may belong to somebody else than who tests it, in a container for instance.
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def broken_links(root: Path, files: Iterable[Path]) -> list[str]:
    """Name the relative links of Markdown files that lead to no file or folder."""
    return [
        f"{path.relative_to(root)}: {target}"
        for path in files
        if path.suffix == ".md"
        for groups in LINK.findall(CODE.sub("", path.read_text()))
        if not ADDRESS.match(target := "".join(groups)) and not leads_somewhere(root, path, target)
    ]


def leads_somewhere(root: Path, path: Path, target: str) -> bool:
    """Say whether a relative link, seen from the file that holds it, has an end inside the repository."""
    end = (path.parent / target.partition("#")[0]).resolve()
    return end.exists() and end.is_relative_to(root.resolve())


def lines_matching(root: Path, files: Iterable[Path], pattern: re.Pattern[str]) -> list[str]:
    """Name every line of these files that the pattern finds something in."""
    return [
        f"{path.relative_to(root)}:{number}: {found.group()}"
        for path in files
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if (found := pattern.search(line))
    ]


def finished_files(root: Path, files: Iterable[Path]) -> list[Path]:
    """Return the files that a user may read, and that are finished or not there."""
    return [path for path in files if path.relative_to(root).parts[0] in FINISHED]


def test_every_link_leads_somewhere() -> None:
    """A document that is renamed takes the links to it along."""
    assert [] == broken_links(REPOSITORY, repository_files(REPOSITORY))


def test_nothing_unfinished_is_left() -> None:
    """What is still to do stands in the tracker, not in the product."""
    files = finished_files(REPOSITORY, repository_files(REPOSITORY))

    assert [] == lines_matching(REPOSITORY, files, UNFINISHED)


def test_no_registry_host_is_named() -> None:
    """Where packages come from is the business of the machine that installs them."""
    assert [] == lines_matching(REPOSITORY, repository_files(REPOSITORY), HOSTS)


def test_no_path_of_a_machine_is_named() -> None:
    """A path that exists on one machine is wrong on every other."""
    assert [] == lines_matching(REPOSITORY, repository_files(REPOSITORY), MACHINE_PATH)


def test_files_about_to_be_tracked_are_looked_at(tmp_path: Path) -> None:
    """A fault is found before it is committed; what git ignores is nobody's business."""
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("ignored.txt\n")
    (tmp_path / "ignored.txt").touch()
    (tmp_path / "new.txt").touch()

    assert [".gitignore", "new.txt"] == sorted(path.name for path in repository_files(tmp_path))


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """Links inside code are examples, links to elsewhere are not ours to promise."""
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
    """Tests and build files may speak of the word; the product may not hold it."""
    module, test = tmp_path / "orchestrator" / "claim.py", tmp_path / "tests" / "test_claim.py"
    for path in (module, test):
        path.parent.mkdir()
        path.write_text("x = 1\n# " + "TO" + "DO: all of it\n")

    found = lines_matching(tmp_path, finished_files(tmp_path, [module, test]), UNFINISHED)

    assert ["orchestrator/claim.py:2: TODO"] == found


@pytest.mark.parametrize("host", ["pypi" + ".org", "deb.debian" + ".org", "registry" + ".npmjs.org"])
def test_a_registry_host_is_found(tmp_path: Path, host: str) -> None:
    """With or without the rest of an address."""
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
    """Part of a relative path or an address is not the start of an absolute one."""
    path = tmp_path / "notes.md"
    path.write_text(line)

    assert count == len(lines_matching(tmp_path, [path], MACHINE_PATH))


def test_the_tests_that_a_page_names_are_there() -> None:
    """What a document says is held by a test is held by one of that name."""
    tests = "\n".join(path.read_text() for path in sorted((REPOSITORY / "tests").rglob("test_*.py")))
    missing = [
        f"{page.relative_to(REPOSITORY)}: {name}"
        for page in sorted((REPOSITORY / "docs").rglob("*.md"))
        for name in re.findall(r"`(test_\w+)`", page.read_text())
        if f"def {name}(" not in tests
    ]

    assert [] == missing
