"""The state of a handler's own completion of its task: it commits at most once, never after the attempt has ended.

    idle ──► open ──► committing ──► committed
     ▲         │           │
     └─────────┴───────────┘   rolled back, or found not committed

The end of the attempt closes it: a transaction that is not committing by then never commits. If one is committing, the
worker waits for it, since only its answer shows how the attempt ended. A handler's thread and the loop may use it at
the same time.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal

from orchestrator.errors import LeaseLost

# Held for a few instructions by each change of any attempt's state.
GUARD = threading.Lock()


class Completion:
    """The state, and the future that resolves when a COMMIT is answered."""

    __slots__ = ("_interrupt", "_is_over", "_settled", "_state", "_task_id")

    def __init__(self, task_id: int) -> None:
        self._task_id = task_id
        self._state: Literal["idle", "open", "committing", "committed"] = "idle"
        self._is_over = False
        self._interrupt: Callable[[], None] | None = None
        self._settled: Future[None] | None = None

    @property
    def is_committed(self) -> bool:
        return self._state == "committed"

    @property
    def is_committing(self) -> bool:
        """Whether the completion may be committed by now, even if the answer has not arrived."""
        return self._state in ("committing", "committed")

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended: it commits no more."""
        return self._is_over

    def open(self, interrupt: Callable[[], None] | None = None) -> None:
        """A transaction begins. `interrupt` is called, on any thread, if the attempt ends before it commits."""
        with GUARD:
            match self._state:
                case "committed":
                    raise RuntimeError(
                        f"task {self._task_id} is completed: the transaction before this one has committed its "
                        "completion with its writes; put all of them into one transaction"
                    )
                case "idle":
                    self._refuse_if_over()
                    self._state, self._interrupt = "open", interrupt
                case _:
                    raise RuntimeError(
                        f"a transaction of task {self._task_id} is open already, and an attempt has one at a time; "
                        "for a savepoint use connection.transaction()"
                    )

    def commit(self) -> None:
        """The COMMIT is sent now."""
        with GUARD:
            self._refuse_if_over()
            self._state, self._settled = "committing", Future()

    def end(self, *, committed: bool) -> None:
        """The transaction has ended."""
        with GUARD:
            self._state = "committed" if committed else "idle"
            self._interrupt, settled, self._settled = None, self._settled, None
        if settled is not None:
            settled.set_result(None)

    def close(self) -> None:
        """The attempt has ended or no longer counts: a transaction that is not committing yet must not commit."""
        with GUARD:
            interrupt = self._interrupt if self._state == "open" and not self._is_over else None
            self._is_over = True
        if interrupt is not None:
            interrupt()

    async def settled(self) -> bool:
        """Close it, wait for a COMMIT that is in progress, and return whether the task was completed."""
        self.close()
        with GUARD:
            on_its_way = self._settled
        if on_its_way is not None:
            await asyncio.shield(asyncio.wrap_future(on_its_way))
        return self.is_committed

    def refusal(self) -> LeaseLost:
        return LeaseLost(self._task_id, "the attempt has ended, and nothing of it is committed any more")

    def _refuse_if_over(self) -> None:
        if self._is_over:
            raise self.refusal()
