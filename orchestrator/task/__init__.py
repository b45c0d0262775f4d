"""What travels through the house, as pure data: no connection, no clock, no I/O.

A task's row as a worker sees it, where it stands and which step is whose (`TRANSITIONS`), how an attempt ended, how
long the next one waits, and the payload on its way to JSON text and back. Every station may import this room; it
imports none of them.
"""

from orchestrator.task.status import TRANSITIONS, Status, Who

__all__ = ["TRANSITIONS", "Status", "Who"]
