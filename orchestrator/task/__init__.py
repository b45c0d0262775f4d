"""A task's data, pure: no connection, no clock, no I/O.

A task's row as a worker sees it; its status, and which steps a worker or an operator may make (`TRANSITIONS`); how an
attempt ended; how long the next one waits; and the payload as JSON text and back. Every package may import this one; it
imports none of them.
"""

from orchestrator.task.status import TRANSITIONS, ChangedBy, Status

__all__ = ["TRANSITIONS", "ChangedBy", "Status"]
