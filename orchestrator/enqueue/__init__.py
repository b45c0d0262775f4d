"""Put tasks into the database, inside whatever transaction the caller holds.

One SELECT of a function of the schema. `request.py` builds it without I/O; `send.py` sends it, for threads and for
coroutines, on the connection that `target.py` recognised. Python checks the payload and names its fault before any SQL;
the database checks the rest, and its refusal comes back as one exception. A connection that the caller passed is never
committed, closed or changed.

A reply may be lost after the commit. Then the caller cannot know whether the tasks are there, and the error says that
(EnqueueInDoubt), never that the enqueue failed. With a key, enqueueing again is safe. Inside a caller's transaction
there is no such doubt: what was not committed is not there.
"""

from orchestrator.enqueue.request import Envelope, Options, Request, envelope, request, stays, written
from orchestrator.enqueue.send import Enqueued, Many, asend, asend_many, send, send_many
from orchestrator.enqueue.target import AsyncTarget, Target, asynchronous, synchronous, target_of
from orchestrator.enqueue.target_psycopg import AsyncPsycopg, Psycopg
from orchestrator.enqueue.trace_context import Marker, Tracing, destination

__all__ = [
    "AsyncPsycopg",
    "AsyncTarget",
    "Enqueued",
    "Envelope",
    "Many",
    "Marker",
    "Options",
    "Psycopg",
    "Request",
    "Target",
    "Tracing",
    "asend",
    "asend_many",
    "asynchronous",
    "destination",
    "envelope",
    "request",
    "send",
    "send_many",
    "stays",
    "synchronous",
    "target_of",
    "written",
]
