"""Traces that break off, and tracing that costs a task; helpers for users' tests that accept everything."""

from tests.mutants.mutant import mutant

SPANS = "orchestrator/observe/spans.py"

MUTANTS = (
    mutant(
        "trace-ends-at-the-row",
        "orchestrator/enqueue/trace_context.py",
        "    if carrier is None or envelope.is_traced:\n",
        "    if carrier is None or envelope.is_traced or True:\n",
        why="The row keeps no context, so a request and its tasks are two traces.",
        suites=("observe/test_tracing.py::test_a_task_goes_on_in_the_trace_it_was_enqueued_in",),
    ),
    mutant(
        "given-context-overwritten",
        "orchestrator/enqueue/trace_context.py",
        "    if carrier is None or envelope.is_traced:\n",
        "    if carrier is None:\n",
        why="Who forwards somebody else's trace finds his own there.",
        suites=("observe/test_tracing.py::test_a_context_that_was_given_stays",),
    ),
    mutant(
        "odd-context-stops-the-tracing",
        SPANS,
        "    if not isinstance(headers, dict):\n        return Context()\n",
        "",
        why="One row with a list for a trace context fails its attempt, again and again.",
        suites=("observe/test_tracing.py::test_a_manually_written_trace_context_costs_no_task",),
    ),
    mutant(
        "tracer-costs-a-task",
        SPANS,
        "        except Exception as error:\n            SPANS.give_up(error)\n",
        "        except ZeroDivisionError as error:\n            SPANS.give_up(error)\n",
        why="A tracer that fails is an error of every handler.",
        suites=("observe/test_tracing.py::test_a_tracer_that_fails_costs_no_task",),
    ),
    mutant(
        "span-never-ends",
        "orchestrator/execute/attempt_span.py",
        "            return end\n        finally:\n            self._close(end)\n",
        "            return end\n        finally:\n            pass\n",
        why="An attempt with a context is traced and never exported.",
        suites=("observe/test_tracing.py::test_an_attempt_that_completes_its_task_itself_ends_its_span",),
    ),
    mutant(
        "claimed-in-a-test-and-kept",
        "orchestrator/testing/run_tasks.py",
        "                await runner.finish(Outcome(task))\n",
        "",
        why="What run_tasks claimed beyond its limit is held by a worker that is gone.",
        suites=("testing/test_run_tasks.py::test_a_task_that_enqueues_itself_comes_to_an_end",),
    ),
    mutant(
        "clock-stands-for-ever",
        "orchestrator/testing/clock.py",
        "        finally:\n            go_on(connection)\n",
        "        finally:\n            pass\n",
        why="After a test nothing in that database is ever due again.",
        suites=("testing/test_clock.py::test_the_clock_goes_on_afterwards",),
    ),
)
