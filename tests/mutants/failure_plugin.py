"""A plugin for pytest: write down, a line each, which tests failed, in which phase, and with which message.

It does not parse the screen, because a parameter may contain any text. A test that could not begin, for example
without a database, has found nothing.
"""

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

INTO = "ORCHESTRATOR_MUTANTS_TOLD"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, object, object]:
    """Note a failure as soon as it happens: the run may be ended before it is over."""
    report = yield
    if isinstance(report, pytest.TestReport) and report.failed:
        error = call.excinfo
        words = f"{error.typename}: {error.value}" if error is not None else ""
        line = json.dumps({"test": item.nodeid, "when": report.when, "words": words[:2000]})
        with Path(os.environ[INTO]).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    return report
