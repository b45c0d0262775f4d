"""The settings: read once, checked as a whole, then passed along frozen.

Every setting has one name: `poll_seconds` here is ORCHESTRATOR_POLL_SECONDS in the environment. An argument overrides
the environment. One error lists all faults together: to find them one at a time would cost a deploy each.
"""

import difflib
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from orchestrator import database_url
from orchestrator.errors import ConfigError
from orchestrator.task.duration import SECONDS_MAX, shown

PREFIX = "ORCHESTRATOR_"
# Variables of the test suite: known, and not typing errors.
FOREIGN = frozenset({"ORCHESTRATOR_TEST_SERVER"})

# Kubernetes sets these in each pod, for each service: those of a service `orchestrator-worker` are no typing errors.
OF_KUBERNETES = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$"
)

# Settings of a command, not of an application: `orchestrator worker` reads them before it loads one.
OF_COMMANDS = ("processes",)
# A flag's variable begins with its command: ORCHESTRATOR_WORKER_GRACE, ORCHESTRATOR_TASKS_LIST_STATUS. The command line
# knows its flags, and reports typing errors in those names (cli/environment_variables.py). No setting begins with a
# command.
COMMANDS = frozenset(
    {
        "bench", "demo", "dev", "doctor", "enqueue", "explain", "failures", "leader", "migrate", "queues", "resume",
        "sql", "status", "tasks", "version", "worker", "workers",
    }
)  # fmt: skip

# This host alone: any client that reaches the port can read the metrics.
METRICS_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings. The defaults fit most installations."""

    # May hold a password. May be missing if the application passes its own connections; else connect.py requires it.
    database_url: str = field(default="", repr=False)
    queues: tuple[str, ...] = ()  # empty: the queues that the application's tasks are declared with
    concurrency: int = 20
    leaked_threads_max: int = 20
    start_wait_seconds: float = 60.0  # how long to wait for a server that is away; 0: not at all
    grace_seconds: float = 30.0
    poll_seconds: float = 5.0
    heartbeat_seconds: float = 5.0
    dead_after_seconds: float = 30.0
    term_seconds: float = 10.0
    payload_bytes_max: int = 262_144
    result_bytes_max: int = 1_048_576
    pool_size: int = 10
    pool_timeout_seconds: float = 30.0
    transaction_pool_size: int = 10
    statistics_seconds: float = 10.0  # 0: none are written
    metrics_port: int | None = None  # None: no server; 0: any free port
    metrics_host: str = METRICS_HOST
    log_payloads: bool = False

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None, **given: Any) -> Self:
        """Merge the arguments, the environment and the defaults, in this order; report all faults at once.

        An argument of `None` counts as not given.
        """
        faults: list[str] = []
        values: dict[str, Any] = {}
        known = {f.name: f for f in fields(cls)}
        for name, text in (os.environ if environment is None else environment).items():
            if name.startswith(PREFIX) and name not in FOREIGN and not is_of_kubernetes(name, text):
                setting = name.removeprefix(PREFIX).lower()
                if setting in known:
                    values[setting] = parsed(name, text, known[setting].default, faults)
                elif is_of_a_command(setting):
                    continue
                elif close := did_you_mean(setting, [*known, *OF_COMMANDS]):
                    faults.append(f"{name} is not a setting; did you mean {PREFIX}{close.upper()}?")
        for name, value in given.items():
            if name not in known:
                close = did_you_mean(name[:200], known)
                faults.append(
                    f"{name[:200]} is not a setting" + (f"; did you mean {close}?" if close else "")
                )
            elif value is not None:
                values[name] = names_of(value) if name == "queues" else value
        config = cls(**values)
        if fault := config.fault_of_url():
            name = "database_url" if given.get("database_url") is not None else f"{PREFIX}DATABASE_URL"
            faults.append(f"{name} {fault}")
        if faults := [*faults, *config.faults()]:
            raise ConfigError("; ".join(faults))
        return config

    def fault_of_url(self) -> str | None:
        """Return why the database's URL cannot be read, if it cannot; the text quotes no part of it."""
        url = self.database_url
        if not isinstance(url, str) or not url or url.startswith("embedded:"):
            return None
        return database_url.fault(url)

    def faults(self) -> list[str]:
        """Return a sentence for every setting that cannot work, alone or beside another."""
        found = []
        if not isinstance(self.database_url, str):
            found.append(f"database_url must be text, not a {type(self.database_url).__name__}")
        if not isinstance(self.queues, tuple) or any(
            not isinstance(q, str) or not q or len(q) > 200 for q in self.queues
        ):
            found.append(f"queues must be names of 1 to 200 characters, not {shown(self.queues)}")
        if not isinstance(self.metrics_host, str) or not self.metrics_host:
            found.append(f"metrics_host must be an address to listen on, not {shown(self.metrics_host)}")
        if not isinstance(self.log_payloads, bool):
            found.append(f"log_payloads must be true or false, not {shown(self.log_payloads)}")
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is None and name == "metrics_port":
                continue
            kind, word = (int, "whole number") if isinstance(least, int) else (int | float, "finite number")
            if not isinstance(value, kind) or isinstance(value, bool) or not least <= value < math.inf:
                found.append(f"{name} must be a {word} of at least {least}, not {shown(value)}")
            elif value > (most := most_of(name)):
                found.append(f"{name} must be at most {most:,.0f}, not {shown(value)}")
        # 3 * 0.1 is a little more than 0.3.
        if not found and self.dead_after_seconds < 2.999 * self.heartbeat_seconds:
            found.append(
                f"dead_after_seconds ({self.dead_after_seconds}) must be at least three times heartbeat_seconds "
                f"({self.heartbeat_seconds}), or one late beat would cost a worker its tasks"
            )
        return found


PORT_MAX = 65_535
# The largest number that an integer column, and the server's arithmetic with it, can hold.
COUNT_MAX = 2**31 - 1
WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}

# An int here allows whole numbers only.
LEAST: Mapping[str, float] = {
    "concurrency": 1,
    "leaked_threads_max": 0,
    "start_wait_seconds": 0.0,
    "grace_seconds": 0.0,
    "poll_seconds": 0.01,
    "heartbeat_seconds": 0.05,
    "dead_after_seconds": 0.15,
    "term_seconds": 0.15,
    "payload_bytes_max": 2,
    "result_bytes_max": 2,
    "pool_size": 1,
    "pool_timeout_seconds": 0.0,
    "transaction_pool_size": 1,
    "statistics_seconds": 0.0,
    "metrics_port": 0,
}


def parsed(name: str, text: str, default: object, faults: list[str]) -> object:
    """Read a variable as the type of its default; note a fault if it is of another type."""
    try:
        match default:
            case tuple():
                return names_of(text)
            case bool():
                return WORDS.get(text.strip().lower(), text)
            case int() | None:  # None: a number that may be left out
                return int(text)
            case float():
                return float(text)
            case _:
                return text
    except ValueError:
        faults.append(f"{name} must be a number, not {shown(text)}")
        return default


def most_of(name: str) -> float:
    """Return the largest value of a setting that is a number."""
    if name == "metrics_port":
        return PORT_MAX
    return SECONDS_MAX if name.endswith("_seconds") else COUNT_MAX


def is_of_a_command(setting: str) -> bool:
    """Tell whether a variable belongs to a command, and not to an application."""
    command, _, flag = setting.partition("_")
    return setting in OF_COMMANDS or (command in COMMANDS and flag != "")


def is_of_kubernetes(name: str, text: str) -> bool:
    """Tell whether a variable is the address of a service, set by Kubernetes."""
    return OF_KUBERNETES.search(name) is not None or (name.endswith("_PORT") and "://" in text)


def names_of(value: object) -> object:
    """Read queue names: a sequence, or text with commas (which as a sequence would be queues of one letter)."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, Iterable) else value


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return close[0] if close else None
