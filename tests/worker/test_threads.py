"""The threads that run `def` handlers: each function gets one, answers reach their callers, and a thread that does
not end is abandoned."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from orchestrator.execute import threads
from orchestrator.execute.threads import Threads
from tests.patience import PATIENCE_SECONDS
from tests.worker.running import until

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


# Threads of earlier tests, which may still be ending.
OTHERS: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    """Every thread of a test ends soon after it."""
    OTHERS.update(runners())
    yield
    asyncio.run(until(lambda: not runners(), "the threads have ended"))
    OTHERS.clear()


def runners() -> list[threading.Thread]:
    named = [thread for thread in threading.enumerate() if thread.name == "orchestrator-handler"]
    return [thread for thread in named if thread not in OTHERS]


def run(size: int, work: Callable[[Threads], Awaitable[None]]) -> None:
    """Run a function with this number of threads, and stop them."""

    async def main() -> None:
        pool = Threads(size)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await work(pool)
        finally:
            pool.stop()

    asyncio.run(main())


def test_blocking_functions_all_start_at_once() -> None:
    """Each waits for all the others: first on new threads, then on idle ones."""

    async def work(pool: Threads) -> None:
        for _ in range(3):
            together = threading.Barrier(20)
            await asyncio.gather(*(pool.call(together.wait, {"timeout": 20}) for _ in range(20)))
        assert 20 == len(runners())

    run(20, work)


def test_calls_begin_in_their_order() -> None:
    """With one thread, in the order of the calls."""
    begun: list[int] = []

    async def work(pool: Threads) -> None:
        await asyncio.gather(*(pool.call(lambda n: begun.append(n), {"n": n}) for n in range(500)))

    run(1, work)

    assert list(range(500)) == begun


def test_with_many_callers_every_answer_reaches_its_caller() -> None:
    """Short and blocking functions, results and exceptions, from many callers at the same time."""

    def answer(n: int) -> int:
        if n % 100 == 7:
            threading.Event().wait(0.002)
        if n % 3 == 0:
            raise KeyError(n)
        return n

    async def caller(pool: Threads, first: int) -> None:
        for n in range(first, first + 400):
            error = await catch(pool.call(answer, {"n": n})) if n % 3 == 0 else None
            assert (n,) == ((await pool.call(answer, {"n": n}),) if error is None else error.args)

    async def work(pool: Threads) -> None:
        await asyncio.gather(*(caller(pool, 400 * k) for k in range(50)))

    run(50, work)


def test_a_function_sees_the_callers_context_and_changes_only_a_copy() -> None:
    """Context variables reach the thread, and its changes do not come back."""

    def change() -> str:
        seen = WHO.get()
        WHO.set("the thread")
        return seen

    async def work(pool: Threads) -> None:
        for name in ("caller", "another"):
            WHO.set(name)
            assert (name, name) == (await pool.call(change, {}), WHO.get())

    run(1, work)


@pytest.mark.parametrize(
    "error",
    [
        StopAsyncIteration(1),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError("own"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_exception_of_a_function_is_returned(error: BaseException) -> None:
    """And the thread goes on."""

    def throw() -> None:
        raise error

    async def work(pool: Threads) -> None:
        answer = asyncio.ensure_future(catch(pool.call(throw, {})))
        assert error is await answer
        assert 1 == await pool.call(lambda: 1, {})
        assert (1, 0) == (len(runners()), pool.abandoned)

    run(1, work)


def test_stop_iteration_is_returned() -> None:
    """A future cannot hold it. Out of a coroutine it comes inside of a RuntimeError, as always in Python."""

    async def work(pool: Threads) -> None:
        error = await catch(pool.call(lambda: next(iter(())), {}))
        assert (RuntimeError, StopIteration) == (type(error), type(error and error.__cause__))

    run(1, work)


async def catch(awaitable: Awaitable[object]) -> BaseException | None:
    try:
        await awaitable
    except BaseException as error:
        return error
    return None


def test_a_call_cancelled_before_it_began_never_begins() -> None:
    """It leaves no thread behind."""
    let_go, began = threading.Event(), threading.Event()

    async def work(pool: Threads) -> None:
        first = asyncio.ensure_future(pool.call(let_go.wait, {"timeout": 20}))
        second = asyncio.ensure_future(pool.call(began.set, {}))
        await asyncio.sleep(0)
        second.cancel()
        assert isinstance(await catch(second), asyncio.CancelledError)
        let_go.set()
        assert await first
        assert await pool.call(lambda: True, {})
        assert (False, 0) == (began.is_set(), pool.abandoned)

    run(1, work)


def test_a_thread_that_does_not_end_is_abandoned_and_frees_the_slot() -> None:
    """The next call, also one that already waits, gets a new thread. The old thread runs no more calls."""
    started, let_go = threading.Event(), threading.Event()
    stuck_thread: list[threading.Thread] = []

    def stuck() -> None:
        stuck_thread.append(threading.current_thread())
        started.set()
        let_go.wait(20)

    async def work(pool: Threads) -> None:
        first = asyncio.ensure_future(pool.call(stuck, {}))
        waiting = asyncio.ensure_future(pool.call(threading.current_thread, {}))
        await until(started.is_set, "it runs")
        first.cancel()
        assert isinstance(await catch(first), asyncio.CancelledError)
        assert stuck_thread[0] is not await waiting
        assert 1 == pool.abandoned
        let_go.set()
        await until(lambda: not stuck_thread[0].is_alive(), "it has ended")
        assert 0 == pool.abandoned
        assert stuck_thread[0] is not await pool.call(threading.current_thread, {})

    run(1, work)


def test_a_thread_left_behind_may_outlive_its_loop() -> None:
    """It ends silently: no caller waits for it."""
    started, let_go = threading.Event(), threading.Event()

    def stuck() -> None:
        started.set()
        let_go.wait(20)
        raise ValueError("nobody hears this")

    async def work(pool: Threads) -> None:
        call = asyncio.ensure_future(pool.call(stuck, {}))
        await until(started.is_set, "it runs")
        call.cancel()

    run(1, work)
    let_go.set()


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later calls get new threads, also at the moment when an old one ends."""
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.001)

    async def work(pool: Threads) -> None:
        for _ in range(300):
            assert [1, 1, 1] == await asyncio.gather(*(pool.call(lambda: 1, {}) for _ in range(3)))
            await asyncio.sleep(0.001)
        await until(lambda: not runners(), "the idle ones have ended")
        assert 1 == await pool.call(lambda: 1, {})

    run(3, work)


def test_stopped_threads_begin_nothing_more() -> None:
    """Waiting calls are cancelled, running ones may finish, and later ones are refused."""
    started, let_go = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        let_go.wait(20)
        return "finished"

    async def work(pool: Threads) -> None:
        running = asyncio.ensure_future(pool.call(slow, {}))
        await until(started.is_set, "it runs")
        waiting = asyncio.ensure_future(pool.call(slow, {}))
        await asyncio.sleep(0)
        pool.stop()
        assert isinstance(await catch(waiting), asyncio.CancelledError)
        let_go.set()
        assert "finished" == await running
        assert isinstance(await catch(pool.call(slow, {})), RuntimeError)

    run(1, work)


def test_a_system_without_threads_fails_the_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call without a thread raises an error. When threads are available again, calls work."""

    def refuse(runner: threads.Runner) -> None:
        raise RuntimeError("can't start new thread")

    async def work(pool: Threads) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(threads.Runner, "start", refuse)
            assert isinstance(await catch(pool.call(lambda: 1, {})), RuntimeError)
        assert 1 == await pool.call(lambda: 1, {})

    run(1, work)
