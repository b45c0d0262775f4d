"""How many functions a task passes, from the answer of its claim until it is completed: a reader reads no more."""

import asyncio
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import orchestrator
from orchestrator import Orchestrator
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Outcome
from tests.patience import PATIENCE_SECONDS

PACKAGE = str(Path(orchestrator.__file__).parent)
FUNCTIONS_MAX = 35
FILES_MAX = 15


def holds_a_task(value: object, depth: int = 2) -> bool:
    """Tell whether a value is a task or its attempt, or a collection of some."""
    if isinstance(value, Claimed | Outcome):
        return True
    if depth == 0 or isinstance(value, str | bytes) or not isinstance(value, Collection):
        return False
    parts = value.values() if isinstance(value, Mapping) else value
    return any(holds_a_task(part, depth - 1) for part in parts)


class Passed:
    """The functions of the package that have had a task: as an argument, a variable, their object or their result."""

    def __init__(self) -> None:
        self.functions: Counter[tuple[str, str]] = Counter()

    def note(self, frame: FrameType, event: str, argument: Any) -> None:
        """Look at the call or the return of a function, as sys.setprofile calls this."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        had = dict(frame.f_locals)
        owner = had.pop("self", None)
        if isinstance(owner, Outcome) or any(map(holds_a_task, (*had.values(), argument))):
            self.functions[code.co_filename.removeprefix(PACKAGE), code.co_qualname] += 1


async def test_a_task_passes_few_functions(app: Orchestrator) -> None:
    """From the claim to `completed`, on the loop: with all that observes it, and without the driver."""

    @app.task(name="work")
    async def work() -> None: ...

    handle = work.enqueue()
    passed = Passed()

    async with asyncio.timeout(PATIENCE_SECONDS):
        sys.setprofile(passed.note)
        try:
            await app.arun_worker(until_empty=True)
        finally:
            sys.setprofile(None)

    assert "completed" == handle.status()
    path = [f"{file[1:]} {name}" for file, name in passed.functions]
    assert len(path) <= FUNCTIONS_MAX, "\n".join(path)
    assert len({file for file, _ in passed.functions}) <= FILES_MAX, "\n".join(path)
