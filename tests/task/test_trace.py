"""The trace id in a task's trace context, which may be any text."""

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
def test_only_a_valid_trace_id_is_returned(context: str | None, expected: str | None) -> None:
    """A producer may have written any JSON as trace context. All other content gives None."""
    assert expected == trace.id_of(context)
