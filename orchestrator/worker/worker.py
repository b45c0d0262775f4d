"""One worker: start, serve, act on the beat's report, stop."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from orchestrator import events
from orchestrator.config import Config
from orchestrator.errors import DatabaseUnavailable
from orchestrator.execute import Registry
from orchestrator.finish import Outbox
from orchestrator.notify.idle_wait import IdleWait
from orchestrator.observe.health import Health
from orchestrator.observe.monitoring import shown
from orchestrator.postgres.connections import Connections
from orchestrator.postgres.transient_errors import is_transient
from orchestrator.services.handler_services import Services
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Outcome
from orchestrator.worker import features, make_parts, start
from orchestrator.worker.beat_report import Report
from orchestrator.worker.end_attempts import AttemptEnder
from orchestrator.worker.heartbeat import Heartbeat
from orchestrator.worker.intake import Intake
from orchestrator.worker.ledger import Ledger
from orchestrator.worker.run_together import Background, first_fault
from orchestrator.worker.slots import Slots
from orchestrator.worker.stall import WATCH_SECONDS

# Room for a few batches of outcomes.
OUTBOX_LEAST = 4000
# For a handler's clean-up and the last outcomes, even when the grace is over.
LAST_WRITES_SECONDS = 10.0
# Without notifications, only a look finds a manual cancel. This finds it within a second.
DEAF_LOOK_SECONDS = 0.75


class Worker:
    """Serves queues with the handlers of a registry, until stop() is called or the queues are empty."""

    serves = True  # serves its port; the command sets False when a parent serves it
    worn_out = False  # too many handlers ignored their timeouts
    _paused, _at_home = tuple[str, ...](), True

    def __init__(self, config: Config, registry: Registry, *, until_empty: bool = False) -> None:
        config = config if config.queues else replace(config, queues=registry.queues)
        self.config, self._registry = config, registry
        connections = Connections(config.database_url)
        self._info = connections.info("heartbeat")
        self._idle = IdleWait(poll_seconds=config.poll_seconds, impatient=until_empty)
        self._claims, self._outcomes = map(connections.session, ("claims", "outcomes"))
        self._features = features.joined(config, registry, connections, ring=self._idle.ring)
        self._outbox = Outbox(
            self._outcomes,
            limit=max(OUTBOX_LEAST, 2 * config.concurrency),
            put_off=self._idle.look_for_due,
            room=lambda: self._slots.wake(),
            ended=self._features.ended,
        )
        self._ledger = Ledger(config.concurrency, self._outbox, freed=self._idle.free)
        self._services = Services(
            config, info=connections.info, reach=connections.reach, ended=self._features.ended
        )
        self._slots = Slots(
            config, registry, self._ledger, self._outbox, self._services, mark=self._idle.wake
        )
        self._attempt_ender = AttemptEnder(self._ledger, self._slots, mark=self._idle.wake)
        self._heartbeat = Heartbeat(
            config,
            registry,
            connections.line("heartbeat"),
            ledger=self._ledger,
            on_report=self._on_report,
            look_seconds=self._look_seconds,
            declare_more=self._features.declare,
        )
        self.stall = self._heartbeat.stall
        self._leader = make_parts.leader(config, connections, self._heartbeat, self._features, self._ledger)
        self._intake = Intake(
            config,
            self._claims,
            worker_id=self._heartbeat.worker_id,
            ledger=self._ledger,
            slots=self._slots,
            outbox=self._outbox,
            rest=self._idle,
            until_empty=until_empty,
            look=self._heartbeat.look,
            give_back=self._attempt_ender.give_back,
            sources=self._features.sources,
        )
        self._listener = make_parts.listener(connections, config, rest=self._idle, heartbeat=self._heartbeat)
        self._stopping, self._grace_seconds = asyncio.Event(), config.grace_seconds
        self._background = Background()

    async def run(self) -> None:
        """Serve. When cancelled: stop cleanly first, then be cancelled."""
        async with shown(self.config, self.health, types=self._registry.types, serves=self.serves):
            await self._run()

    async def _run(self) -> None:
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
        """Claim no more, let running tasks finish within the grace, release the rest. A second call ends the grace."""
        hurry = self._stopping.is_set()
        self._stopping.set()
        if grace_seconds is not None or hurry:
            self._grace_seconds = grace_seconds or 0.0
        self._intake.stop()

    def health(self) -> Health:
        """Return this worker's health. Any thread may call this."""
        return Health(
            is_registered=self._heartbeat.is_registered,
            is_stopping=self._stopping.is_set(),
            is_at_home=self._at_home,
            hears=self._idle.can_be_rung,
            silent_seconds=self._heartbeat.silent_seconds,
            silent_seconds_max=self.config.dead_after_seconds / 2,
            loop_lag_seconds=self.stall.lag_seconds,
            slots=self.config.concurrency,
            busy=len(self._ledger.in_slots),
            waiting=len(self._ledger.line),
            unwritten=self._outbox.count,
        )

    @property
    def left_behind(self) -> int:
        """How many handlers ignored their timeout or their cancellation and may still run."""
        return self._slots.left_behind

    async def _live(self) -> None:
        try:
            if not await self._start():
                return
            self.stall.seen(self._intake.worker_id)
            self._leader.start()
            events.emit(
                events.WorkerStarted(
                    self._intake.worker_id, self.config.queues, self.config.concurrency, self._registry.types
                )
            )
            beside = [part.run() for part in (self._outbox, self._listener, self._services)]
            beside += [follower.run() for follower in self._features.followers]
            await first_fault(self._serve(), self._watch(), self._attempt_ender.watch(), *beside)
        finally:
            await self._close()
        events.emit(events.WorkerStopped(self._intake.worker_id))

    async def _start(self) -> bool:
        limit_seconds = self.config.start_wait_seconds
        return await start.started(
            self._heartbeat.start, self._info, limit_seconds=limit_seconds, stopping=self._stopping
        )

    async def _serve(self) -> None:
        try:
            await self._intake.run()
        except Exception as error:
            # stop() was called while the database is away. Ghosts are released when our beat is missed.
            if not (self._stopping.is_set() and is_transient(error)):
                raise
        await self._drain()

    async def _drain(self) -> None:
        self._stopping.set()
        self._heartbeat.drain()
        # Resign now, not at the end of the grace: another worker can lead meanwhile.
        self._background.start(asyncio.to_thread(self._leader.stop))
        self._attempt_ender.release_waiting()
        running = len(self._ledger.in_slots)
        events.emit(events.WorkerStopping(self._intake.worker_id, running, self._grace_seconds))
        begun = time.monotonic()
        self._intake.put_away_suspect()
        # Ends: the grace passes; stop() may shorten it meanwhile.
        while self._ledger.at_work and (left := begun + self._grace_seconds - time.monotonic()) > 0:
            self._idle.forget()
            await self._intake.mark_running()
            await self._idle.wait_for_room(left)
        await self._write_the_rest(begun + self._grace_seconds)

    async def _write_the_rest(self, at: float) -> None:
        """Release what still runs, and write the outbox: until `at`, and for at least LAST_WRITES_SECONDS."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(LAST_WRITES_SECONDS, at - time.monotonic())):
                await self._attempt_ender.give_back()
                await self._outbox.flush()
                await self._features.flush()
        if unwritten := self._outbox.count:
            raise DatabaseUnavailable(
                f"stopped with {unwritten} outcomes that could not be written; their tasks will run again"
            )

    async def _close(self) -> None:
        self.stall.stop()
        await self._attempt_ender.drop("the worker ends")
        for part in (self._listener, self._claims, self._outcomes, self._services, self._features):
            await part.close()
        self._slots.stop()
        await asyncio.to_thread(self._leader.stop)
        await self._background.wait()
        await asyncio.to_thread(self._heartbeat.stop)

    # What the database reports about this worker. It arrives on the heartbeat's thread; the loop acts on it.

    def _on_report(self, report: Report) -> None:
        self._leader.heard(report.view, sent_at=report.sent_at)
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._act, report)

    def _act(self, report: Report) -> None:
        if report.worker_id != self._intake.worker_id:
            return
        if not report.alive:
            self._begin_anew(given_away=True)
            return
        self._attempt_ender.lose(report.lost)
        self._idle.lives(report.peers)
        self._idle.listed(report.worker_id, with_beacon=report.names_beacon)
        if report.beacon_lost:
            self._listener.listen_anew()
        if report.draining and not self._stopping.is_set():
            self.stop()
        if report.at_home != self._at_home:
            self._at_home = report.at_home
            events.emit(events.DatabaseReplaced(report.worker_id, resumed=report.at_home))
        if report.paused != self._paused:
            self._paused = report.paused
            events.emit(events.QueuesPaused(report.paused))
        # Another report that waited for the loop may have named the same ghosts.
        if report.ghosts and (ghosts := self._ledger.ghosts(report.ghosts)):
            self._release(ghosts, report.worker_id)
        self._ledger.freed()  # the heartbeat's thread may have released the line

    def _release(self, ghosts: Sequence[Claimed], worker_id: UUID) -> None:
        """Release tasks that the database holds in our name and that we do not have. The lease fences this write."""
        events.emit(events.GhostsReleased(len(ghosts)))
        released = [Outcome(ghost, worker_id=worker_id) for ghost in ghosts]
        self._ledger.enter(released)
        for ghost in released:
            self._ledger.write(ghost)

    async def _watch(self) -> None:
        """Stop the handlers when our beat has failed for so long that other workers may have their tasks."""
        while True:
            self.stall.seen(self._intake.worker_id)
            await asyncio.sleep(WATCH_SECONDS)
            if self._heartbeat.is_cut_off and (self._ledger.at_work or self._ledger.expects_claims):
                self._begin_anew(given_away=False)
            leaked_threads = self._slots.leaked_threads
            if leaked_threads > self.config.leaked_threads_max and not self._stopping.is_set():
                self.worn_out = True
                events.emit(events.WorkerWornOut(self._intake.worker_id, leaked_threads))
                self.stop()

    def _begin_anew(self, *, given_away: bool) -> None:
        """Go on under a new id: the database says that our leases are void, or by our own clock they may be."""
        silent_seconds = self._heartbeat.silent_seconds
        old, new = self._heartbeat.renounce()
        self._intake.begin_anew(new, given_away=given_away)
        if given_away:
            events.emit(events.WorkerDeclaredDead(old, new, self._ledger.at_work))
            self._background.start(self._attempt_ender.drop("the worker was declared dead"))
        else:
            events.emit(events.WorkerCutOff(old, new, silent_seconds))
            # If no other worker has taken them, they are released as soon as the database answers.
            self._background.start(self._attempt_ender.give_back())
        self._listener.begin_anew(new)

    # Questions of the other parts.

    def _look_seconds(self) -> float:
        seconds = self._leader.look_seconds
        return seconds if self._idle.can_be_rung else min(DEAF_LOOK_SECONDS, seconds)
