"""The processes under fault: workers and producers, each in a place of its own, behind a proxy of its own.

When a process ends, another takes its place. `who` is w3.2 for the second worker in the third place; its connections
and its ledger entries have this name. Every end is recorded, with whether it was expected.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tests.chaos import child
from tests.forked import REPOSITORY, Birth, Forked
from tests.recovery.gate import Gate
from tests.worker.processes import surroundings

APPS = ("tests.chaos.handlers:app", "tests.chaos.handlers:next_app")
WORKER, PRODUCER = "chaos_worker", "chaos_producer"
SIGKILL_STATUS = -int(signal.SIGKILL)


@dataclass(slots=True)
class Hired:
    """One process. `fates` are its expected exit statuses."""

    who: str
    pid: int = 0
    fates: set[int] = field(default_factory=set)
    frozen: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def signal(self, number: signal.Signals) -> bool:
        """Send it a signal. Return False if it has ended."""
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
        """Send it SIGTERM, and expect it to end."""
        # 1: it could not write all outcomes. SIGTERM: it was still loading, and had no handler for the signal.
        self.fates |= {0, 1, -int(signal.SIGTERM)}
        return self.signal(signal.SIGTERM)


class Place:
    """The place in which one worker, or producer, follows another."""

    def __init__(self, name: str, role: str, url: str) -> None:
        self.name = name
        self.role = role
        self.gate = Gate(as_role(url, role))
        self.count = 0
        self.hired: Hired | None = None
        self.version = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of a fleet. `guards`: libpq's, for the URLs. `ended` is called at each end."""

    url: str
    folder: Path
    workers: int
    producers: int
    environment: Mapping[str, str]
    guards: str
    ended: Callable[[Hired, int], None]


class Fleet:
    """Starts worker and producer processes, and replaces those that end."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._change = threading.Lock()
        self._present: dict[str, Hired] = {}
        self._watchers: list[threading.Thread] = []
        self.workers = [Place(f"w{n}", WORKER, setting.url) for n in range(1, setting.workers + 1)]
        self.producers = [Place(f"p{n}", PRODUCER, setting.url) for n in range(1, setting.producers + 1)]
        self.open = [*self.workers, *self.producers]

    def start(self) -> None:
        """Fill every place."""
        self.refill()

    def refill(self) -> None:
        """Start a new process in every place whose process has ended."""
        for place in self.open:
            if place.hired is None or place.hired.ended.is_set():
                self.hire(place)

    def renew(self) -> None:
        """Replace workers of the first version by workers of the next."""
        for place in self.workers:
            if place.version % 2 == 0 and place.hired is not None:
                place.version = 1
                place.hired.stop()
                self.hire(place)

    def stop(self, places: list[Place], seconds: float) -> list[Hired]:
        """Stop the processes in these places, and return those that did not end in time."""
        self.open = [place for place in self.open if place not in places]
        prefixes = tuple(f"{place.name}." for place in places)
        told = [hired for hired in self.present() if hired.who.startswith(prefixes)]
        for hired in told:
            hired.signal(signal.SIGCONT)
            hired.stop()
        deadline = time.monotonic() + seconds
        return [hired for hired in told if not hired.ended.wait(max(0.0, deadline - time.monotonic()))]

    def close(self) -> None:
        """Kill the remaining processes."""
        for hired in self.present():
            hired.kill()
        for watcher in self._watchers:
            watcher.join(30)
        for place in (*self.workers, *self.producers):
            place.gate.__exit__()

    def present(self) -> list[Hired]:
        """Return all processes that have not ended, also those that are stopping and have a successor."""
        with self._change:
            return list(self._present.values())

    def hire(self, place: Place) -> Hired:
        """Start a process in a place."""
        place.count += 1
        hired = Hired(f"{place.name}.{place.count}")
        url = named(place.gate.url, hired.who, self._setting.guards)
        env = surroundings(
            url,
            **self._setting.environment,
            CHAOS_URL=url,
            CHAOS_WHO=hired.who,
            CHAOS_SEED=hired.who,
            CHAOS_LEDGER_URL=as_role(self._setting.url, WORKER),
        )
        log = self._setting.folder / "logs" / f"{hired.who}.log"
        birth = Birth(env, REPOSITORY, Path(os.devnull), log, log)
        if place.role == WORKER:
            words = [APPS[place.version % 2], "-c", "8", "--grace", "2"]
            process = Forked(birth, child.work, hired.who, *words)
        else:
            process = Forked(birth, child.produce)
        hired.pid = process.pid
        with self._change:
            self._present[hired.who] = hired
        place.hired = hired
        watcher = threading.Thread(target=self._watch, args=[hired, process], daemon=True)
        self._watchers.append(watcher)
        watcher.start()
        return hired

    def _watch(self, hired: Hired, process: Forked) -> None:
        status = process.wait()
        with self._change:
            self._present.pop(hired.who)
        hired.ended.set()
        self._setting.ended(hired, status)


def as_role(url: str, role: str) -> str:
    """Return the same database's URL for a role."""
    return url.replace("//postgres@", f"//{role}@")


def named(url: str, who: str, guards: str) -> str:
    """Return a URL whose sessions have this name."""
    return f"{url}?options={quote(f'-c chaos.who={who}')}&{guards}"
