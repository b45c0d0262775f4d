"""A task that kills each of its workers."""

from pathlib import Path

from tests.recovery.environment import Environment

SLOTS = 10
INNOCENTS = 100


def test_a_task_that_kills_workers_becomes_a_dead_letter_after_three_losses_alone_and_others_do_not(
    quick: Environment, tmp_path: Path
) -> None:
    """Its dead letter names the workers that it killed. The other tasks complete, and have losses only for attempts
    that had started."""
    book = tmp_path / "book"
    struck = str(tmp_path / "struck")
    innocents = quick.enqueue("drill.innocent", SLOTS - 1, book=str(book), struck=struck, seconds=0.2)
    (poison,) = quick.enqueue("drill.poison", struck=struck)
    others = INNOCENTS - len(innocents)
    innocents += quick.enqueue("drill.innocent", others, book=str(book), struck=struck, seconds=0.2)
    workers = [quick.start("-c", str(SLOTS)) for _ in range(2)]

    def all_over() -> bool:
        """Replace each dead worker, like a supervisor does."""
        for n, process in enumerate(workers):
            if process.popen.poll() is not None:
                workers[n] = quick.start("-c", str(SLOTS))
                quick.ask("SELECT orchestrator.resume_queue('default')")
        return quick.are([poison], "dead_letter") and quick.are(innocents, "completed")

    quick.until(all_over, "the poison becomes a dead letter, the others are completed")

    ((error, losses),) = quick.ask("SELECT error, losses FROM orchestrator.tasks WHERE id = %s", poison)
    killed = quick.lost([poison])
    assert (5, [1, 2, 3, 4, 5]) == (losses, [attempt for _, attempt, _ in killed])
    assert all(str(worker_id) in error["message"] for _, _, worker_id in killed), error
    begun = {tuple(map(int, line.split())) for line in book.read_text().splitlines()}
    lost = {(task_id, attempt) for task_id, attempt, _ in quick.lost(innocents)}
    assert lost
    assert lost <= begun
    attempts = dict(zip(innocents, (attempt for attempt, _ in quick.losses(innocents)), strict=True))
    assert begun == {(task_id, n) for task_id, last in attempts.items() for n in range(1, last + 1)}
    for *_, worker_id in killed[2:]:
        assert quick.ask("SELECT count(*) FROM orchestrator.attempts WHERE worker_id = %s AND task_id <> %s",
            worker_id, poison) == [(0,)], "from the third loss on it ran alone"  # fmt: skip
