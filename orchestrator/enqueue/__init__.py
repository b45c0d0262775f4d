"""Put tasks into the database, inside whatever transaction the caller holds.

One SELECT of a function of the schema, built purely in `request.py`, sent by `send.py` in two colours on whatever
`target.py` recognised. What is wrong with a payload is said here, by name, before any SQL; the rest the database says,
and its words come back as one exception. Nothing is committed, closed or changed on a connection that was handed in.

A reply may be lost after the commit. Then nobody knows whether the tasks are there, and that is what is said
(EnqueueInDoubt), never that it failed; with a key, asking again is safe. Inside a caller's transaction there is no such
doubt: what was not committed is not there.
"""

from orchestrator.enqueue.request import Envelope, Options, Request, envelope, request, stays, written
from orchestrator.enqueue.send import Enqueued, Many, asend, asend_many, send, send_many
from orchestrator.enqueue.target import AsyncTarget, Target, asynchronous, synchronous, target_of
from orchestrator.enqueue.trace_context import Marker, Tracing, destination

__all__ = [
    "AsyncTarget",
    "Enqueued",
    "Envelope",
    "Many",
    "Marker",
    "Options",
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
