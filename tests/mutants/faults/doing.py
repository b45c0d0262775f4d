"""Workers that lose their tasks, go on after their leases, or die of a handler."""

from tests.mutants.mutant import mutant

ATTEMPT = "orchestrator/execute/attempt.py"
ENDINGS = "orchestrator/worker/end_attempts.py"
WORKER = "orchestrator/worker/worker.py"

MUTANTS = (
    mutant(
        "lease-lost-and-nobody-told",
        ENDINGS,
        "                say_lost(attempt.task, reason)\n                self._abandon([attempt], reason)\n",
        "                say_lost(attempt.task, reason)\n",
        why="A handler whose task was cancelled or taken goes on to its end, and its effects with it.",
        suites=("worker/test_notified.py::test_a_manual_change_reaches_a_running_coroutine",),
    ),
    mutant(
        "declared-dead-and-goes-on",
        WORKER,
        "            self._begin_anew(given_away=True)\n            return",
        "            return",
        why="Who was declared dead goes on under an id that may claim nothing: a worker that looks alive.",
        suites=("worker/test_declared_dead.py",),
    ),
    mutant(
        "cut-off-and-goes-on",
        "orchestrator/worker/heartbeat.py",
        "return self.silent_seconds > self._config.dead_after_seconds",
        "return self.silent_seconds > 1000 * self._config.dead_after_seconds",
        why="In a black hole handlers run on beside those of who has their tasks now.",
        suites=(
            "recovery/test_cut_off.py::test_a_worker_in_a_black_hole_stops_its_handlers_and_comes_back_as_a_new_one",
        ),
    ),
    mutant(
        "blocked-loop-keeps-what-waits",
        "orchestrator/worker/stall.py",
        "        finish.release_now(connection, unbegun, worker_id=worker_id)\n",
        "        pass\n",
        why="What was claimed ahead waits behind a handler that blocks the loop, for as long as it does.",
        suites=("worker/test_blocked_loop.py",),
    ),
    mutant(
        "timeout-that-is-never-looked-at",
        ENDINGS,
        "(overdue_seconds := attempt.overdue_seconds(now)) > 0:",
        "(overdue_seconds := attempt.overdue_seconds(now)) > 3600:",
        why="A handler that never ends keeps its slot for ever.",
        suites=("worker/test_timeouts.py",),
    ),
    mutant(
        "signal-after-a-clean-stop",
        "orchestrator/processes/watchdog.py",
        "            signal.signal(number, self._take_again)\n",
        "            loop.add_signal_handler(number, int)\n            signal.signal(number, self._take_again)\n",
        why="A second signal that comes at the end of a clean stop kills the process: a supervisor reads a failure.",
        suites=("worker/test_processes.py::test_a_signal_after_the_loop_leaves_a_clean_stop_clean",),
    ),
    mutant(
        "signal-while-the-interpreter-ends",
        "orchestrator/cli/worker.py",
        "    ignore_signals_at_exit()\n    return load_app(app)",
        "    return load_app(app)",
        why="The interpreter restores the default handlers before it ends: a signal then kills the process.",
        suites=("worker/test_processes.py::test_a_signal_after_the_loop_leaves_a_clean_stop_clean",),
    ),
    mutant(
        "hangs-when-it-closes",
        "orchestrator/processes/watchdog.py",
        "                self.end_within(CLOSE_SECONDS)\n",
        "                pass\n",
        why="An application that hangs when it closes lives on for the grace, and longer, after a stop signal.",
        suites=(
            "worker/test_processes.py::test_an_application_that_hangs_when_it_closes_ends_after_a_signal",
        ),
    ),
    mutant(
        "handler-that-cancels-itself",
        ATTEMPT,
        "return self.ending or await self._raised(error)",
        "return self.ending or RELEASED",
        why="A handler that lets its own cancellation escape is taken for called off, uncharged, for ever.",
        suites=("worker/test_abandoned_handlers.py::test_a_handler_that_cancels_its_own_task_has_failed",),
    ),
    mutant(
        "sys-exit-passes-for-a-release",
        ATTEMPT,
        "        except BaseException as error:\n            # It failed",
        "        except Exception as error:\n            # It failed",
        why="sys.exit() in a handler ends the worker, or its slot.",
        suites=("worker/test_hostile_handlers.py",),
    ),
    mutant(
        "nul-in-an-error",
        "orchestrator/execute/error_text.py",
        '    return text.replace("\\x00", "\\\\x00").encode("utf-8", "backslashreplace").decode("utf-8")',
        "    return text",
        why="PostgreSQL refuses the outcome of a handler whose exception holds NUL or half a character.",
        suites=("worker/test_hostile_handlers.py",),
    ),
    mutant(
        "stops-without-its-outcomes",
        WORKER,
        "                await self._outbox.flush()\n",
        "                pass\n",
        why="What had just ended when the worker stopped runs again.",
        suites=("worker/test_stopping.py",),
    ),
    mutant(
        "stops-with-what-it-claimed-ahead",
        WORKER,
        "        self._attempt_ender.release_waiting()\n",
        "",
        why="What was claimed ahead waits for the grace to end, or is begun by who stops.",
        suites=("worker/test_stopping.py::test_a_stopping_worker_begins_no_task_that_it_claimed_ahead",),
    ),
    mutant(
        "running-is-never-marked",
        "orchestrator/worker/ledger.py",
        'return attempt.state != "abandoned" and now - attempt.begun_at > MARK_SECONDS and now >= attempt.mark_at',
        "return False",
        why="No loss is ever counted, and nobody sees what runs.",
        suites=(
            "worker/test_notified.py::test_a_suspect_runs_alone",
            "worker/test_processes.py",
        ),
    ),
    mutant(
        "crash-of-a-child-taken-for-an-end",
        "orchestrator/execute/children.py",
        '        raise ExecutorCrashed(f"the handler\'s process {end}, before it began")',
        "        return None",
        why="A handler that never ran is completed.",
        suites=("worker/test_child_processes.py::test_a_child_that_cannot_start_fails_the_attempt",),
    ),
    mutant(
        "success-without-an-announcement",
        "orchestrator/processes/worker_process.py",
        " and not self.announced_its_stop",
        " and False",
        why="A handler that calls os._exit(0) empties one place of a parent after another.",
        suites=(
            "worker/test_parent_restarts.py::test_a_status_of_success_that_was_not_announced_is_a_crash",
        ),
    ),
    mutant(
        "a-forked-copy-goes-on",
        "orchestrator/forks.py",
        "        sys.setprofile(_watch)\n",
        "        pass\n",
        why="A copy of the worker runs what waits in it a second time.",
        suites=("worker/test_broken_processes.py::test_a_forked_copy_ends_where_its_handler_ends",),
    ),
    mutant(
        "a-forked-copy-keeps-sessions",
        "orchestrator/postgres/connect.py",
        "forks.keep(await psycopg.AsyncConnection.connect(info, autocommit=True))",
        "await psycopg.AsyncConnection.connect(info, autocommit=True)",
        why="The beacon of a dead worker stays held for as long as a copy of it lives.",
        suites=(
            "worker/test_broken_processes.py"
            "::test_a_forked_copy_that_lives_on_keeps_nothing_of_a_worker_that_ends",
        ),
    ),
    mutant(
        "a-server-that-is-away-refuses",
        "orchestrator/worker/start.py",
        "            if answered or not",
        "            if True or not",
        why="A deploy that restarts the database takes all workers along.",
        suites=("worker/test_start.py::test_a_worker_waits_for_a_server_that_is_away",),
    ),
)
