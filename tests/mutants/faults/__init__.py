"""The list of faults. Each names first the tests that need the least time; `tests/` is left out."""

from tests.mutants.faults import (
    claiming,
    counting,
    doing,
    enqueueing,
    explaining,
    finishing,
    leading,
    manual,
    migrating,
    recovering,
    tracing,
    waking,
)

MUTANTS = (
    *claiming.MUTANTS,
    *finishing.MUTANTS,
    *recovering.MUTANTS,
    *leading.MUTANTS,
    *waking.MUTANTS,
    *doing.MUTANTS,
    *manual.MUTANTS,
    *enqueueing.MUTANTS,
    *explaining.MUTANTS,
    *counting.MUTANTS,
    *tracing.MUTANTS,
    *migrating.MUTANTS,
)
