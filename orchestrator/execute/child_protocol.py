"""The messages between a worker and a child that runs a handler: JSON, each message after its length.

They hold text and numbers only and are never unpickled: a user who can write a task's row, or code that raises an
exception in a handler, must not be able to run code on the other side.

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
    """Run this task with the function of this name in this module."""

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
    """The payload does not fit the handler. The handler was not called."""

    fault: Fault


class Signalled(msgspec.Struct, frozen=True, tag=True):
    """The handler raised one of the four signals that decide how its attempt ends."""

    signal: Literal["Retry", "Snooze", "Cancel", "Discard"]
    reason: str = ""
    after_seconds: float | None = None


Answer = Returned | Broken | Unfit | Signalled

ORDERS = msgspec.json.Decoder(Order)
ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def framed(message: Order | Answer | None) -> bytes:
    """Return the bytes of a message. None is the empty message."""
    body = BEGUN if message is None else msgspec.json.encode(message)
    return LENGTH.pack(len(body)) + body
