"""The trace id in any text of a task's trace context."""

import pytest

from orchestrator.task import trace

ID = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (f'{{"traceparent": "00-{ID}-00f067aa0ba902b7-01"}}', ID),
        (f'{{"tracestate": "a=b", "traceparent": "00-{ID}-00f067aa0ba902b7-00"}}', ID),
        (None, None),
        ("{}", None),
        ("null", None),
        ('{"traceparent": 7}', None),
        ('{"traceparent": "00-short-00f067aa0ba902b7-01"}', None),
        (f'{{"traceparent": "00-{"0" * 32}-00f067aa0ba902b7-01"}}', None),
        (f'{{"note": "\\"traceparent\\": \\"00-{ID}-00f067aa0ba902b7-01\\""}}', None),
    ],
)
def test_only_a_trace_id_is_one(context: str | None, expected: str | None) -> None:
    """Anybody may have written it; nothing else comes of it."""
    assert expected == trace.id_of(context)
