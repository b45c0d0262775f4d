"""Run a handler, and return how its attempt ended. Whatever a handler does, the result is one `End`.

Handlers come from the registry only: a type is a key and is never imported. The payload is decoded here, inside the
attempt, so a body that Python refuses fails only its own task. `async def` handlers run on the loop. `def` handlers
run in threads, or in child processes if they are declared so. This room writes only one thing to the database: the
mark that an attempt began.
"""

from orchestrator.execute.attempt import Attempt
from orchestrator.execute.attempt_span import Make, Spans, maker
from orchestrator.execute.context import Context, Services
from orchestrator.execute.declare import declare
from orchestrator.execute.executors import Executors
from orchestrator.execute.mark_running import begin, begin_now
from orchestrator.execute.registry import Handler, Registry

__all__ = [
    "Attempt",
    "Context",
    "Executors",
    "Handler",
    "Make",
    "Registry",
    "Services",
    "Spans",
    "begin",
    "begin_now",
    "declare",
    "maker",
]
