"""The monitoring of a running worker: gauges, and over HTTP its metrics and whether it is ready.

The worker opens the port first: if the port is not free, the worker raises an error and claims nothing. At the end,
users' subscribers get the events that are queued for them, within SETTLE_SECONDS.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from orchestrator import events, observe
from orchestrator.config import Config
from orchestrator.observe.health import Health
from orchestrator.observe.metric_values import readings

SETTLE_SECONDS = 5.0


@asynccontextmanager
async def shown(
    config: Config, health: Callable[[], Health], *, types: Iterable[str], serves: bool
) -> AsyncIterator[None]:
    """Publish a worker's state while the block lasts."""
    async with AsyncExitStack() as ends:
        ends.push_async_callback(asyncio.to_thread, events.settle, SETTLE_SECONDS)
        if config.metrics_port is not None:
            ends.callback(observe.count(queues=config.queues, types=types))
            if serves:
                server = observe.Server(config.metrics_host, config.metrics_port, observe.own_pages(health))
                server.start()
                ends.push_async_callback(asyncio.to_thread, server.stop)
        ends.callback(observe.ask(lambda: readings(health())))
        yield
