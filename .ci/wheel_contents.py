"""Compare what a wheel holds with what the repository holds: every file of the package, and nothing else."""

import subprocess  # nosec B404 # each call says what it starts
import sys
import zipfile
from pathlib import Path, PurePosixPath


def expected_files() -> set[str]:
    """Return what belongs into the wheel: the package, the module of its command, and the migrations inside it."""
    # Files not yet committed count as well: a leak is what git would ignore.
    options = ["-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"]
    command = ["git", *options, "orchestrator", "orchestrator_command.py", "migrations"]
    told = subprocess.run(command, check=True, capture_output=True, text=True)  # nosec B603 # git with fixed words
    listed = told.stdout.splitlines()
    return {
        f"orchestrator/_{path}" if path.startswith("migrations/") else path
        for path in listed
        if Path(path).is_file()
    }


def main(wheel: str) -> int:
    """Print every difference; the exit status says whether there was one."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    packaged = {name for name in names if not PurePosixPath(name).parts[0].endswith(".dist-info")}
    expected = expected_files()

    faults = [f"missing from the wheel: {name}" for name in sorted(expected - packaged)]
    faults += [f"leaked into the wheel: {name}" for name in sorted(packaged - expected)]
    if not any(name.startswith("orchestrator/_migrations/versions/") for name in packaged):
        faults.append("the wheel holds no migration")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        faults.append("the wheel holds no licence")
    print("\n".join(faults) or f"{len(packaged)} files, as in the repository")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
