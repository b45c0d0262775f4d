"""What goes between a worker and a child that runs a handler: JSON, each message behind its length.

Text and numbers only, and nothing is ever unpickled: whoever may write a task's row, or a handler's exception, must
not be able to make the other side run something.

    worker                               child
      Order ────────────────────────────►
                                         ◄──── an empty message: the order has come, the handler begins
                                         ◄──── Returned | Broken | Unfit | Signalled
"""

import struct
from typing import Literal

import msgspec

from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Fault

LENGTH = struct.Struct("!I")
BEGUN = b""


class Order(msgspec.Struct, frozen=True):
    """Run this task with that function, which is found by its name in its module."""

    module: str
    name: str
    task: Claimed
    result_bytes_max: int


class Returned(msgspec.Struct, frozen=True, tag=True):
    """The handler returned this, as JSON text."""

    result: str | None


class Broken(msgspec.Struct, frozen=True, tag=True):
    """The handler raised."""

    fault: Fault


class Unfit(msgspec.Struct, frozen=True, tag=True):
    """The payload does not fit the handler, which was not called."""

    fault: Fault


class Signalled(msgspec.Struct, frozen=True, tag=True):
    """The handler raised one of the four that say how its attempt ended."""

    signal: Literal["Retry", "Snooze", "Cancel", "Discard"]
    reason: str = ""
    after_seconds: float | None = None


Answer = Returned | Broken | Unfit | Signalled

ORDERS = msgspec.json.Decoder(Order)
ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def framed(message: Order | Answer | None) -> bytes:
    """Return a message as it goes over the wire; None is the empty one."""
    body = BEGUN if message is None else msgspec.json.encode(message)
    return LENGTH.pack(len(body)) + body
