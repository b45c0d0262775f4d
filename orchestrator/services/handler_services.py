"""A worker's services for its handlers, through their contexts: transactions, progress, a logger.

Their connections open when a handler first needs one, in addition to the worker's own: up to `transaction_pool_size`
for transactions, and one for all progress.
"""

import asyncio
from collections.abc import Callable

from orchestrator import observe
from orchestrator.config import Config
from orchestrator.execute import Context
from orchestrator.execute.context import Logger
from orchestrator.finish import LeaseEnds
from orchestrator.postgres.reconnect import Reconnect
from orchestrator.postgres.session import Session
from orchestrator.postgres.transaction_pool import TransactionPool
from orchestrator.services.progress import Progress
from orchestrator.services.transaction import Transaction
from orchestrator.task import trace
from orchestrator.task.claimed import Claimed

# The name of the connections in pg_stat_activity and in events.
TRANSACTIONS = "transactions"


class Services:
    """The services of one worker. `info` gives the connection string for a purpose."""

    def __init__(
        self,
        config: Config,
        *,
        info: Callable[[str], str],
        reach: Reconnect,
        ended: Callable[[LeaseEnds], None] = lambda _ends: None,
    ) -> None:
        self.result_bytes_max = config.result_bytes_max
        self._info = info
        self._ended = ended
        self._reach = reach
        size = min(config.concurrency, config.transaction_pool_size)
        self._pool = TransactionPool(info(TRANSACTIONS), purpose=TRANSACTIONS, size=size, reach=reach)
        self._progress = Progress(Session(info("progress"), purpose="progress", reach=reach))

    async def run(self) -> None:
        """Serve, on the loop of the handlers."""
        self._loop = asyncio.get_running_loop()
        await self._progress.run()

    async def close(self) -> None:
        """Close the connections. An open transaction of a handler that was left behind is rolled back."""
        await self._pool.close()
        await self._progress.close()

    def transaction(self, context: Context) -> Transaction:
        """Return a transaction that completes this attempt."""
        return Transaction(
            context, self._pool, new_session=self._new_session, loop=self._loop, ended=self._ended
        )

    def report(self, task: Claimed, progress: str) -> None:
        """Note a task's progress, as JSON text. Any thread may call this."""
        self._progress.say(task, progress)

    async def reported(self, task: Claimed) -> None:
        """Wait until the last progress is written, but not for long."""
        await self._progress.last_word(task)

    def logger(self, task: Claimed) -> Logger:
        """Return a logger that names the task."""
        traced = trace.id_of(task.trace_context)
        bound: Logger = observe.logger(
            task_id=task.id, type=task.type, queue=task.queue, attempt=task.attempt,
            **({} if traced is None else {"trace_id": traced}),
        )  # fmt: skip
        return bound

    def _new_session(self) -> Session:
        return Session(self._info(TRANSACTIONS), purpose=TRANSACTIONS, reach=self._reach)
