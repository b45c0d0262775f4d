"""Values that a line must not show: secrets by their names, passwords inside of text, payloads without the setting
for them."""

import json
import time

import pytest

from orchestrator.observe.masking import MASK, masked, masked_payload, masked_text


@pytest.mark.parametrize(
    "name",
    [
        "password", "Password", "db_passwd", "pwd", "passphrase", "client_secret", "token", "refreshToken",
        "Authorization", "api_key", "apikey", "API-Key", "Cookie", "set-cookie", "credentials", "aws_access_key_id",
        "private-key", "DATABASE_URL", "dsn",
    ],
)  # fmt: skip
def test_a_field_that_is_called_like_a_secret_is_masked(name: str) -> None:
    """With any spelling, any value, and at any depth."""
    fields = {name: "hunter2", "in": [{"a": {name: {"b": 1}}}], "n": 1}

    assert {name: MASK, "in": [{"a": {name: MASK}}], "n": 1} == masked(fields)


@pytest.mark.parametrize(
    "name", ["event", "type", "queue", "task_id", "key", "passenger", "author", "message"]
)
def test_other_fields_stay(name: str) -> None:
    """They are the purpose of a line."""
    assert {name: "x", "none": None} == masked({name: "x", "none": None})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://jane:hunter2@db:5432/shop refuses", "postgresql://jane:***@db:5432/shop refuses"),
        ("redis://:hunter2@cache/0", "redis://:***@cache/0"),
        ("https://a:b@c/ and amqp://d:e@f/", "https://a:***@c/ and amqp://d:***@f/"),
        ("host=db user=jane password=hunter2 dbname=shop", "host=db user=jane password=*** dbname=shop"),
        ("password='hunter 2' host=db", "password='***' host=db"),
        ('{"api_key": "sk-4711", "n": 1}', '{"api_key": "***", "n": 1}'),
        ("Authorization: Bearer abc.def.ghi", "Authorization: ***"),
        ("said Bearer abcdefgh.ijkl to it", "said Bearer *** to it"),
        ("AWS_SECRET_ACCESS_KEY=wJalr/x+y", "AWS_SECRET_ACCESS_KEY=***"),
        ("user 7 has no password", "user 7 has no password"),
        ("http://db:5432/shop?a=b", "http://db:5432/shop?a=b"),
        ("token expired", "token expired"),
    ],
)
def test_a_password_in_a_text_is_masked(text: str, shown: str) -> None:
    """And the rest stays readable."""
    assert shown == masked_text(text) == masked_text(shown)


@pytest.mark.parametrize("piece", ["://a:", "password=", "token: '", "Bearer ", "secret_", "a-"])
def test_a_long_text_costs_no_more_than_its_length(piece: str) -> None:
    """Untrusted messages may be long, and made to be slow; with a quadratic cost seconds would become minutes."""
    begun = time.process_time()
    masked_text(piece * (200_000 // len(piece)))

    assert 5.0 > time.process_time() - begun


def test_a_payload_is_masked_and_cut() -> None:
    """As JSON, so that it is readable. A payload that Python cannot read is not shown."""
    shown = json.loads(masked_payload('{"user": {"password": "hunter2", "id": 7}}'))

    assert {"user": {"password": MASK, "id": 7}} == shown
    assert 2_001 == len(masked_payload(json.dumps(["x" * 5000])))
    for unreadable in ('{"n": ' + "[" * 100_000, "not JSON"):
        assert "unreadable" == masked_payload(unreadable)


def test_deep_values_are_cut() -> None:
    """A log line must stay short."""
    deep: object = "hunter2"
    for _ in range(50):
        deep = {"a": deep}

    assert "hunter2" not in str(masked(deep))
