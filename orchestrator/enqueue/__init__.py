"""Put tasks into the database, inside whatever transaction the caller holds.

One SELECT of `orchestrator.enqueue_many`, built purely in `request.py` and sent on the caller's connection by
`send.py`, in two colours. What is wrong with a payload is said here, by name, before any SQL; the rest the
database says, and its words come back as one exception. Nothing is committed, closed or changed on a connection
that was handed in.
"""

from orchestrator.enqueue.request import Options, Request, request
from orchestrator.enqueue.send import Enqueued, asend, send

__all__ = ["Enqueued", "Options", "Request", "asend", "request", "send"]
