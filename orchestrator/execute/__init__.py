"""Run a handler, and say how its attempt ended. Whatever a handler does, one `End` comes out.

Handlers are found in the registry and nowhere else: a type is a key, never something to import. The payload is
decoded here, inside the attempt, so that a body Python refuses costs its own task. `async def` handlers run on
the loop, `def` handlers in threads, or in child processes where they are declared so. This room writes nothing to
the database but the mark that an attempt began.
"""

from orchestrator.execute.attempt import Attempt
from orchestrator.execute.attempt_span import Spans, Traced
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
    "Registry",
    "Services",
    "Spans",
    "Traced",
    "begin",
    "begin_now",
    "declare",
]
