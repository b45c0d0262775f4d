"""A shop with tasks for tests: they note their runs, fail, snooze, or enqueue other tasks."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from orchestrator import Cancel, Context, Discard, Orchestrator, Retry, Snooze


@dataclass
class Item:
    """An argument that is not plain JSON."""

    name: str
    bought: date


class Shop:
    """An application, and the notes of its handlers."""

    def __init__(self, app: Orchestrator) -> None:
        self.app = app
        self.notes: list[Any] = []
        self.welcome = app.task(name="shop.welcome", queue="mail")(self._welcome)
        self.awelcome = app.task(name="shop.awelcome")(self._awelcome)
        self.pack = app.task(name="shop.pack")(self._pack)
        self.fail = app.task(name="shop.fail", max_attempts=2)(self._fail)
        self.ask = app.task(name="shop.ask")(self._ask)
        self.chain = app.task(name="shop.chain")(self._chain)

    def _welcome(self, user_id: int, language: str = "en") -> str:
        self.notes.append(("welcome", user_id, language))
        return f"hello {user_id}"

    async def _awelcome(self, user_id: int) -> str:
        self.notes.append(("awelcome", user_id))
        return f"hello {user_id}"

    def _pack(self, item: Item, context: Context) -> int:
        context.log.debug("packing")
        context.progress({"packed": 1})
        self.notes.append(item)
        return context.attempt

    def _fail(self, word: str) -> None:
        self.notes.append(word)
        raise ValueError(word)

    def _ask(self, what: str) -> None:
        raise {
            "retry": Retry(60, "not yet"),
            "snooze": Snooze(60),
            "cancel": Cancel("no longer"),
            "discard": Discard("never"),
        }[what]

    def _chain(self, left: int) -> None:
        self.notes.append(f"begin {left}")
        if left:
            self.chain.enqueue(left=left - 1)
        self.notes.append(f"end {left}")
