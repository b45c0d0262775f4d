"""How many of the slots each queue gets in one claim: the queues take turns, one slot each.

A queue that gave all it was asked for may hold more; a queue that gave less is short. Queues that may hold more divide
the slots among them. A short queue is asked for its equal share, so that the worker notices when it fills again. It is
asked first, so that the other queues get what it does not use in the same claim. All queues begin as full: the first
claim divides the slots equally, and the next one knows better.

Slots that cannot be divided go to the queues in turn: a queue that got one slot more goes to the end of the line.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from orchestrator.task.claimed import Claimed


class Share(NamedTuple):
    """A queue, and the most tasks to take of it."""

    queue: str
    limit: int


class Shares:
    """Divides the slots of one worker among its queues."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._line = list(queues)
        self._short: set[str] = set()

    def of(self, wanted: int) -> list[Share]:
        """Divide the wanted slots. Returns the queues in the order to look at them; the limits may add up to more."""
        short = [queue for queue in self._line if queue in self._short]
        full = [queue for queue in self._line if queue not in self._short]
        equal = max(1, wanted // len(self._line))
        each, more = divmod(wanted, len(full)) if full else (0, 0)
        favoured = full[:more]
        self._line = [*(queue for queue in self._line if queue not in favoured), *favoured]
        return [
            *(Share(queue, equal) for queue in short),
            *(Share(queue, max(1, each + (n < more))) for n, queue in enumerate(full)),
        ]

    def learn(self, asked: Iterable[Share], tasks: Sequence[Claimed], *, wanted: int) -> bool:
        """Note which queues are short. Return whether any queue may hold more than it gave."""
        if len(self._line) == 1:
            return len(tasks) >= wanted
        counts = Counter(task.queue for task in tasks)
        # A claim that found all that it wanted has not asked every queue.
        has_asked_all = len(tasks) < wanted
        for queue, limit in asked:
            if counts[queue] >= limit:
                self._short.discard(queue)
            elif has_asked_all:
                self._short.add(queue)
        return not has_asked_all or len(self._short) < len(self._line)


def in_turn(tasks: Sequence[Claimed], queues: Iterable[str]) -> list[Claimed]:
    """Return the tasks in an order in which their queues take turns. Within a queue the order stays."""
    found: dict[str, list[Claimed]] = {queue: [] for queue in queues}
    for task in tasks:
        found[task.queue].append(task)
    return [task for turn in zip_longest(*found.values()) for task in turn if task is not None]
