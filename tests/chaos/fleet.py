"""The processes under fire: workers, each in a place of its own behind a proxy of its own, and producers likewise.

A place is never empty for long: who ends is followed by the next. `who` is w3.2 for the second worker in the third
place; its connections say so, and so do its ledger entries. Every end is on record, with whether it was to be expected.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.recovery.gate import Gate
from tests.worker.processes import REPOSITORY, eventually, surroundings

APPS = ("tests.chaos.handlers:app", "tests.chaos.handlers:next_app")
WORKER, PRODUCER = "chaos_worker", "chaos_producer"
SIGKILL_STATUS = -int(signal.SIGKILL)


@dataclass(slots=True)
class Hired:
    """One process. `fates` are the exit statuses that are to be expected of it."""

    who: str
    pid: int = 0
    fates: set[int] = field(default_factory=set)
    frozen: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def signal(self, number: signal.Signals) -> bool:
        """Send it a signal; false when it is gone."""
        if self.ended.is_set() or not self.pid:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def kill(self) -> bool:
        """Kill it."""
        self.fates.add(SIGKILL_STATUS)
        return self.signal(signal.SIGKILL)

    def stop(self) -> bool:
        """Tell it to stop."""
        # 1: it could not write all. Who is told while it is still being loaded just ends.
        self.fates |= {0, 1, -int(signal.SIGTERM)}
        return self.signal(signal.SIGTERM)


class Place:
    """Where one worker, or producer, follows another."""

    def __init__(self, name: str, role: str, url: str) -> None:
        self.name = name
        self.role = role
        self.gate = Gate(as_role(url, role))
        self.count = 0
        self.hired: Hired | None = None
        self.version = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """What a fleet is made with. `guards`: libpq's, for the URLs. `ended` is told of each end."""

    url: str
    folder: Path
    workers: int
    producers: int
    environment: Mapping[str, str]
    guards: str
    ended: Callable[[Hired, int], None]


class Fleet:
    """Starts worker processes through the nursery, and replaces those that end."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._nursery: subprocess.Popen[bytes] | None = None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._change = threading.Lock()
        self._by_pid: dict[int, Hired] = {}
        self._by_who: dict[str, Hired] = {}
        self.workers = [Place(f"w{n}", WORKER, setting.url) for n in range(1, setting.workers + 1)]
        self.producers = [Place(f"p{n}", PRODUCER, setting.url) for n in range(1, setting.producers + 1)]
        self.open = [*self.workers, *self.producers]

    def start(self) -> None:
        """Fill every place."""
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.nursery"],
            env=surroundings(None, PYTHONPATH=str(REPOSITORY)), cwd=REPOSITORY,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._listener.start()
        self.refill()

    def refill(self) -> None:
        """Let another one follow wherever one has ended."""
        for place in self.open:
            if place.hired is None or place.hired.ended.is_set():
                self.hire(place)

    def renew(self) -> None:
        """Let workers of the next version follow those of the first."""
        for place in self.workers:
            if place.version % 2 == 0 and place.hired is not None:
                place.version = 1
                place.hired.stop()
                self.hire(place)

    def stop(self, places: list[Place], seconds: float) -> list[Hired]:
        """Tell all in these places to stop, and return those that did not end in time."""
        self.open = [place for place in self.open if place not in places]
        prefixes = tuple(f"{place.name}." for place in places)
        told = [hired for hired in self.present() if hired.who.startswith(prefixes)]
        for hired in told:
            hired.signal(signal.SIGCONT)
            hired.stop()
        deadline = time.monotonic() + seconds
        return [hired for hired in told if not hired.ended.wait(max(0.0, deadline - time.monotonic()))]

    def close(self) -> None:
        """Kill whoever is left, and the nursery with them."""
        if self._nursery is not None:
            assert self._nursery.stdin is not None
            self._nursery.stdin.close()
            self._nursery.wait(30)
            self._listener.join(30)
        for place in (*self.workers, *self.producers):
            place.gate.__exit__()

    def present(self) -> list[Hired]:
        """Return all that have not ended: also who is still stopping, with another in its place."""
        with self._change:
            return list(self._by_who.values())

    def hire(self, place: Place) -> Hired:
        """Let another one begin in a place."""
        place.count += 1
        hired = place.hired = Hired(f"{place.name}.{place.count}")
        with self._change:
            self._by_who[hired.who] = hired
        url = named(place.gate.url, hired.who, self._setting.guards)
        words = [APPS[place.version % 2], "-c", "8", "--grace", "2"]
        order = {
            "who": hired.who,
            "words": words if place.role == WORKER else [],
            "log": str(self._setting.folder / "logs" / f"{hired.who}.log"),
            "environment": {
                **self._setting.environment,
                "ORCHESTRATOR_DATABASE_URL": url,
                "CHAOS_URL": url,
                "CHAOS_WHO": hired.who,
                "CHAOS_SEED": hired.who,
                "CHAOS_LEDGER_URL": as_role(self._setting.url, WORKER),
            },
        }
        assert self._nursery is not None
        assert self._nursery.stdin is not None
        self._nursery.stdin.write((json.dumps(order) + "\n").encode())
        self._nursery.stdin.flush()
        eventually(lambda: hired.pid, f"{hired.who} is born")
        return hired

    def _listen(self) -> None:
        assert self._nursery is not None
        assert self._nursery.stdout is not None
        with self._nursery.stdout as lines:
            # Ends with the nursery.
            for line in lines:
                self._hear(json.loads(line))

    def _hear(self, said: dict[str, Any]) -> None:
        with self._change:
            if "born" in said:
                hired = self._by_who[said["born"]]
                self._by_pid[said["pid"]] = hired
                hired.pid = said["pid"]
                return
            hired = self._by_pid.pop(said["ended"])
            self._by_who.pop(hired.who)
        hired.ended.set()
        self._setting.ended(hired, said["status"])


def as_role(url: str, role: str) -> str:
    """Return the same database's URL for a role."""
    return url.replace("//postgres@", f"//{role}@")


def named(url: str, who: str, guards: str) -> str:
    """Return a URL whose sessions say who they are."""
    return f"{url}?options={quote(f'-c chaos.who={who}')}&{guards}"
