"""One worker: start, claim, run, finish, stop."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from psycopg.errors import LockNotAvailable

from orchestrator import claim, events, execute, notify
from orchestrator.config import Config
from orchestrator.errors import DatabaseUnavailable
from orchestrator.execute import Registry
from orchestrator.finish import Outbox
from orchestrator.postgres import connect
from orchestrator.postgres.session import Session
from orchestrator.postgres.transient import is_transient
from orchestrator.task.model import Claimed
from orchestrator.worker.heartbeat import Heartbeat
from orchestrator.worker.rest import Rest
from orchestrator.worker.slots import Slots

RECONCILE_EVERY_SECONDS = 30.0
# For a handler's clean-up and the last outcomes, even when the grace is over.
LAST_WRITES_SECONDS = 10.0


class Worker:
    """Serves queues with the handlers of a registry, until told to stop, or until they are empty."""

    def __init__(self, config: Config, registry: Registry, *, until_empty: bool = False) -> None:
        config = config if config.queues else replace(config, queues=declared_queues(registry))
        self._config = config
        self._until_empty = until_empty
        self._rest = Rest(poll_seconds=config.poll_seconds, impatient=until_empty)
        self._claims = self._session("claims")
        self._outcomes = self._session("outcomes")
        self._heartbeat = Heartbeat(config, registry, declared_dead=self._declared_dead)
        self._outbox = Outbox(
            self._outcomes, limit=max(1000, 2 * config.concurrency), put_off=self._rest.look_for_due
        )
        self._slots = Slots(config, registry, self._outbox, freed=self._rest.wake)
        self._listener = notify.Listener(
            self._session("listener"), queues=config.queues, heard=self._rest.look_for_due
        )
        self._types = tuple(handler.type for handler in registry)
        self._queues = list(config.queues)
        self._worker_id = self._heartbeat.worker_id
        self._reborn: UUID | None = None
        self._stopping = False
        self._grace_seconds = config.grace_seconds
        self._marked_idle = False
        self._reconcile_at = 0.0

    async def run(self) -> None:
        """Serve. When cancelled: stop cleanly first, then be cancelled."""
        self._loop = asyncio.get_running_loop()
        life = asyncio.create_task(self._live(), name="orchestrator worker")
        try:
            await asyncio.shield(life)
        except asyncio.CancelledError:
            self.stop()
            while not life.done():
                try:
                    await asyncio.shield(life)
                except asyncio.CancelledError:
                    self.stop(grace_seconds=0)
            raise

    def stop(self, *, grace_seconds: float | None = None) -> None:
        """Claim no more, let running tasks finish within the grace, give the rest back. Again: hurry."""
        hurry = self._stopping
        self._stopping = True
        if grace_seconds is not None or hurry:
            self._grace_seconds = grace_seconds or 0.0
        self._rest.wake()

    @property
    def left_behind(self) -> int:
        """How many handlers ignored their timeout or their cancellation, and may still run."""
        return self._slots.left_behind

    async def _live(self) -> None:
        try:
            await asyncio.to_thread(self._heartbeat.start)
            events.emit(
                events.WorkerStarted(
                    self._worker_id, self._config.queues, self._config.concurrency, self._types
                )
            )
            await first_fault(self._serve(), self._outbox.run(), self._listener.run(), self._slots.watch())
        finally:
            await self._close()
        events.emit(events.WorkerStopped(self._worker_id))

    async def _serve(self) -> None:
        try:
            await self._claim_until_told()
        except Exception as error:
            # Told to stop while the database is away. What is ours there and not in our hands goes back when
            # our beat is missed.
            if not (self._stopping and is_transient(error)):
                raise
        await self._drain()

    async def _claim_until_told(self) -> None:
        while not self._stopping:
            if self._reborn is not None:
                await self._begin_anew(self._reborn)
            self._rest.forget()
            if self._slots.free <= 0:
                await self._rest.sleep()
                continue
            if self._rest.is_due:
                await self._sweep()
            if await self._claim():
                self._rest.found()
            elif self._until_empty and await self._is_empty():
                return
            else:
                await self._rest_a_while()

    async def _claim(self) -> bool:
        """Claim for the free slots, and start what was claimed; tell whether there was anything."""
        ready = partial(
            claim.batch, worker_id=self._worker_id, queues=tuple(self._queues), batch_size=self._slots.free
        )
        # In a fixed order the first queue would take every slot.
        self._queues.append(self._queues.pop(0))
        try:
            tasks = await self._claims.run(ready, give_up_on=always)
        except Exception as error:
            if not is_transient(error):
                raise
            # Whether the claim was committed is unknown: what is in our name and not in our hands goes back.
            self._reconcile_at = 0.0
            tasks = []
        if time.monotonic() >= self._reconcile_at:
            await self._reconcile(tasks)
        if tasks:
            await self._start(tasks)
        return bool(tasks)

    async def _start(self, tasks: list[Claimed]) -> None:
        known = []
        for task in tasks:
            if self._slots.knows(task):
                known.append(task)
            else:
                await self._slots.put_back(task, worker_id=self._worker_id)
        if known:
            begun = await self._claims.run(partial(execute.begin, tasks=known), give_up_on=self._told_to_stop)
            self._slots.start(begun, worker_id=self._worker_id)
            begun_ids = {task.id for task in begun}
            for task in known:
                if task.id not in begun_ids:
                    # Somebody has its row locked, or took it back already; whichever, the outbox will tell.
                    await self._slots.release(task, worker_id=self._worker_id)
        if self._marked_idle:
            self._marked_idle = False
            await self._mark_idle(0.0)

    async def _sweep(self) -> None:
        swept = await self._claims.run(claim.sweep, give_up_on=self._told_to_stop)
        self._rest.next_due(0.0 if swept.moved >= claim.SWEEP_BATCH_SIZE else swept.next_due_seconds)
        foreign = [queue for queue in swept.queues if queue not in self._config.queues]
        if foreign or swept.moved > self._slots.free:
            await self._claims.run(partial(notify.ring, queues=swept.queues), give_up_on=self._told_to_stop)

    async def _reconcile(self, just_claimed: list[Claimed]) -> None:
        held = [*just_claimed, *self._slots.held(), *self._outbox.held()]
        work = partial(claim.reconcile, worker_id=self._worker_id, held=held)
        ghosts = await self._claims.run(work, give_up_on=self._told_to_stop)
        self._reconcile_at = time.monotonic() + RECONCILE_EVERY_SECONDS
        if ghosts:
            events.emit(events.GhostsReleased(len(ghosts)))

    async def _rest_a_while(self) -> None:
        if self._rest.is_first_look:
            self._marked_idle = True
            await self._mark_idle(self._rest.idle_seconds)
        await self._rest.rest()

    async def _is_empty(self) -> bool:
        if self._slots.held() or self._outbox.held():
            return False
        work = partial(claim.remaining, queues=self._config.queues)
        return not await self._claims.run(work, give_up_on=self._told_to_stop)

    async def _mark_idle(self, seconds: float) -> None:
        """Ask to be rung, or no more: a hint, not worth waiting for behind somebody's lock on our row."""
        work = partial(notify.idle, worker_id=self._worker_id, seconds=seconds)
        with suppress(LockNotAvailable):
            await self._claims.run(work, give_up_on=self._told_to_stop_or_locked)

    async def _drain(self) -> None:
        self._heartbeat.drain()
        self._stopping = True
        running = len(self._slots.held())
        events.emit(events.WorkerStopping(self._worker_id, running, self._grace_seconds))
        begun = time.monotonic()
        # Ends: the grace passes; stop() may shorten it meanwhile.
        while self._slots.held() and (left := begun + self._grace_seconds - time.monotonic()) > 0:
            self._rest.forget()
            await self._rest.sleep(left)
        await self._write_the_rest(begun + self._grace_seconds)

    async def _write_the_rest(self, at: float) -> None:
        """Give back what still runs, and write what is in the outbox: until then, or a little longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(LAST_WRITES_SECONDS, at - time.monotonic())):
                await self._slots.give_back()
                await self._outbox.flush()
        if unwritten := len(self._outbox.held()):
            raise DatabaseUnavailable(
                f"stopped with {unwritten} outcomes that could not be written; their tasks will run again"
            )

    def _told_to_stop_or_locked(self, error: Exception) -> bool:
        return self._stopping or isinstance(error, LockNotAvailable)

    def _told_to_stop(self, _error: Exception) -> bool:
        """Whether to let an error that may pass end the claiming, since there is to be no more of it."""
        return self._stopping

    async def _close(self) -> None:
        await self._slots.drop()
        await self._listener.close()
        await self._claims.close()
        await self._outcomes.close()
        self._slots.stop()
        await asyncio.to_thread(self._heartbeat.stop)

    async def _begin_anew(self, worker_id: UUID) -> None:
        """We were declared dead: our leases are void. Drop what we hold, and go on under the new id."""
        old, self._worker_id, self._reborn = self._worker_id, worker_id, None
        dropped = await self._slots.drop()
        self._marked_idle = False
        events.emit(events.WorkerDeclaredDead(old, worker_id, dropped))

    def _declared_dead(self, _old: UUID, new: UUID) -> None:
        """Called on the heartbeat's thread."""
        self._loop.call_soon_threadsafe(self._be_reborn, new)

    def _be_reborn(self, worker_id: UUID) -> None:
        self._reborn = worker_id
        self._rest.wake()

    def _session(self, purpose: str) -> Session:
        # Each under a name of its own, for whoever looks into pg_stat_activity.
        info = connect.conninfo(self._config.database_url, application_name=f"orchestrator {purpose}")
        return Session(info, purpose=purpose)


def declared_queues(registry: Registry) -> tuple[str, ...]:
    """Return the queues that the handlers were declared with, and the one that takes what names none."""
    return tuple(sorted({"default", *(handler.queue for handler in registry)}))


async def first_fault(serving: Coroutine[Any, Any, None], *helpers: Coroutine[Any, Any, None]) -> None:
    """Serve until done, with the helpers beside; a helper that fails ends it all, with its exception."""
    main = asyncio.create_task(serving)
    tasks = [main, *map(asyncio.create_task, helpers)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def always(_error: Exception) -> bool:
    return True
