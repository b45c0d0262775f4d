"""Annotated arguments are sent as JSON and arrive with their types, through a real worker."""

import dataclasses
import enum
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict
from uuid import UUID

import msgspec
import psycopg
import pydantic
import pytest
from psycopg.types.json import Jsonb

from orchestrator import Context, Orchestrator
from tests.worker.running import run_until_empty, task
from tests.worker.running import value as scalar

SECRET = "hunter2"  # noqa: S105 - it is meant to be looked for


class Colour(enum.Enum):
    """A text enum."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """A number enum."""

    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Address:
    """Nested in others."""

    street: str
    moved_in: date | None = None


@dataclasses.dataclass(frozen=True)
class Person:
    """Nested, optional, with a default made by a factory."""

    name: str
    address: Address
    born: datetime
    favourite: Colour = Colour.RED
    others: list[Address] = dataclasses.field(default_factory=list)
    by_level: dict[str, Level] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Guarded:
    """Checks its own values."""

    code: str

    def __post_init__(self) -> None:
        if len(self.code) > 3:
            raise ValueError(f"{self.code!r} is too long")


class Order(msgspec.Struct, frozen=True):
    """A struct."""

    id: UUID
    price: Decimal
    due: timedelta
    lines: tuple[str, int]


class Renamed(msgspec.Struct, rename="camel", tag="renamed"):
    """Its JSON name differs from its field's name."""

    first_name: str


class Invoice(pydantic.BaseModel):
    """A pydantic model with a nested one."""

    class Line(pydantic.BaseModel):
        """The nested model."""

        text: str
        price: Decimal

    number: int
    at: datetime
    colour: Colour
    lines: list[Line] = []


@dataclasses.dataclass
class Mixed:
    """A dataclass that holds a pydantic model and a struct."""

    invoice: Invoice
    order: Order | None


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: float


class Movie(TypedDict):
    """A plain dict, with an optional key."""

    title: str
    year: NotRequired[int]
    released: date


ADDRESS = Address("Elm", date(2026, 2, 3))
BORN = datetime(1984, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
ORDER = Order(UUID(int=7), Decimal("1.10"), timedelta(days=-1, microseconds=7), ("a", 1))
PERSON = Person("Ada", ADDRESS, BORN, Colour.BLUE, [ADDRESS, Address("Oak")], {"x": Level.HIGH})
INVOICE = Invoice(number=7, at=BORN, colour=Colour.RED, lines=[Invoice.Line(text="a", price=Decimal("0.1"))])

TRAVELLERS: list[tuple[Any, Any]] = [
    (datetime, BORN),
    (datetime, datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=-5, minutes=-30)))),
    (date, date(2026, 2, 28)),
    (time, time(23, 59, 59, tzinfo=UTC)),
    (timedelta, timedelta(days=3, seconds=4, microseconds=5)),
    (UUID, UUID(int=2**128 - 1)),
    (Decimal, Decimal("123456789012345678901234567890.123456789")),
    (bytes, b"\x00\xff raw"),
    (Colour, Colour.BLUE),
    (Level, Level.HIGH),
    (Literal["a", "b"], "b"),
    (Address, ADDRESS),
    (Person, PERSON),
    (Order, ORDER),
    (Renamed, Renamed("Ada")),
    (Invoice, INVOICE),
    (Mixed, Mixed(INVOICE, ORDER)),
    (Mixed, Mixed(INVOICE, None)),
    (Point, Point(1, 2.5)),
    (Movie, {"title": "Metropolis", "released": date(1927, 1, 10)}),
    (Movie, {"title": "Metropolis", "year": 1927, "released": date(1927, 1, 10)}),
    (list[Person], [PERSON]),
    (list[Invoice], [INVOICE, INVOICE]),
    (dict[str, Order], {"a": ORDER}),
    (Optional[Invoice], INVOICE),  # noqa: UP045 - as older code has it
    (Invoice | None, None),
    (Person | None, PERSON),
    (datetime | None, BORN),
    (int | str, "7"),
    (tuple[Colour, ...], (Colour.RED, Colour.BLUE)),
    (Annotated[int, msgspec.Meta(ge=1)], 7),
    (dict[str, list[UUID | None]], {"a": [UUID(int=1), None]}),
    (float, 1e300),
    (float, 3.0),
    (Any, {"a": [1, None]}),
]


def names(traveller: object) -> str | None:
    return getattr(traveller, "__name__", None) or (str(traveller) if "[" in str(traveller) else None)


def handler_of(annotation: Any, seen: list[Any]) -> Callable[..., None]:
    def handler(argument: Any, default: Any = "unset") -> None:
        seen.append(argument)

    handler.__annotations__["argument"] = annotation
    return handler


def test_arguments_arrive_equal_and_with_their_types(app: Orchestrator) -> None:
    """Through JSON, jsonb, and a worker."""
    seen: list[list[Any]] = [[] for _ in TRAVELLERS]
    for number, (annotation, value) in enumerate(TRAVELLERS):
        app.task(name=f"traveller_{number}")(handler_of(annotation, seen[number])).enqueue(argument=value)
    run_until_empty(app)

    assert [[value] for _, value in TRAVELLERS] == seen
    assert [type(value) for _, value in TRAVELLERS] == [type(arrived) for (arrived,) in seen]


def test_each_of_many_arguments_has_its_type(app: Orchestrator, connection: psycopg.Connection) -> None:
    """Together with a Context, defaults and plain ones; a result is plain JSON."""
    seen: dict[str, Any] = {}

    @app.task(name="several")
    def several(
        context: Context, plain: dict[str, Any], person: Person, *, at: datetime, when: date | None = None
    ) -> Order:
        seen.update(plain=plain, person=person, at=at, when=when, task_id=context.id)
        return ORDER

    handle = several.enqueue(plain={"at": "2026-01-01"}, person=PERSON, at=BORN)
    run_until_empty(app)

    assert {
        "plain": {"at": "2026-01-01"}, "person": PERSON, "at": BORN, "when": None, "task_id": handle.id,
    } == seen  # fmt: skip
    assert {
        "id": str(UUID(int=7)),
        "price": "1.10",
        "due": "-PT86399.999993S",
        "lines": ["a", 1],
    } == handle.result()


class Unknown:
    """A type that no library can build."""


def with_unresolvable(first: "OnlyForTypeCheckers", at: datetime) -> None:  # type: ignore[name-defined]  # noqa: F821
    ARRIVED.append((first, at))


ARRIVED: list[tuple[Any, Any]] = []


def test_an_annotation_that_cannot_be_resolved_does_not_affect_the_others(app: Orchestrator) -> None:
    """As under `if TYPE_CHECKING`: that argument arrives as JSON."""
    ARRIVED.clear()
    task = app.task(name="partly")(with_unresolvable)

    task.enqueue(first=[1], at=BORN)
    run_until_empty(app)

    assert [([1], BORN)] == ARRIVED


@pytest.mark.parametrize("annotation", [Unknown, list[Unknown], Callable[[], int], "Unresolvable"], ids=str)
def test_a_type_that_cannot_be_built_arrives_as_json(annotation: Any, app: Orchestrator) -> None:
    """A plain value is more useful than a dead letter."""
    seen: list[Any] = []
    traveller = app.task(name="traveller")(handler_of(annotation, seen))

    traveller.enqueue(argument=[{"a": 1}])
    run_until_empty(app)

    assert [[{"a": 1}]] == seen


class Cat(msgspec.Struct, tag=True):
    """One of two."""


class Dog(msgspec.Struct, tag=True):
    """The other."""


class Strict(pydantic.BaseModel):
    """Its error contains the value."""

    code: str
    colour: Colour = Colour.RED

    @pydantic.field_validator("code")
    @classmethod
    def short(cls, code: str) -> str:
        """Refuse a long value, with the value in the error."""
        if len(code) > 3:
            raise ValueError(f"{code!r} is too long")
        return code


MISFITS: list[tuple[Any, Any, str]] = [
    (int, SECRET, "argument: Expected `int`, got `str`"),
    (datetime, SECRET, "argument: Invalid RFC3339 encoded datetime"),
    (UUID, SECRET, "argument: Invalid UUID"),
    (Decimal, SECRET, "argument: Invalid decimal string"),
    (Colour, SECRET, "argument: Invalid enum value"),
    (Level, 77077, "argument: Invalid enum value"),
    (dict[Colour, int], {SECRET: 1}, "argument: Invalid enum value - at `key` in `$`"),
    (Literal["a"], SECRET, "argument: Invalid enum value"),
    (list[Colour], ["red", SECRET], "argument: Invalid enum value - at `$[1]`"),
    (Person, {"name": SECRET}, "argument: Object missing required field `address`"),
    (
        Address,
        {"street": SECRET, "moved_in": SECRET},
        "argument: Invalid RFC3339 encoded date - at `$.moved_in`",
    ),
    (Guarded, {"code": SECRET}, "argument: its own check raised ValueError"),
    (list[Guarded], [{"code": SECRET}], "argument: its own check raised ValueError - at `$[0]`"),
    (Cat | Dog, {"type": SECRET}, "argument: Invalid value - at `$.type`"),
    (Invoice, {"number": SECRET, "at": SECRET}, "argument: number: int_parsing; at: datetime_"),
    (list[Invoice], [{"number": SECRET}], "number: "),
    (Strict, {"code": SECRET}, "code: value_error"),
    (Strict, {"code": "a", "colour": SECRET}, "colour: enum"),
    (Annotated[str, msgspec.Meta(pattern="^x")], SECRET, "argument: Expected `str` matching regex"),
]


@pytest.mark.parametrize(("annotation", "value", "message"), MISFITS, ids=lambda part: names(part))
def test_a_misfit_is_a_dead_letter_that_does_not_show_the_value(
    annotation: Any, value: Any, message: str, app: Orchestrator, connection: psycopg.Connection
) -> None:
    """At once, because another try would not help. It names the argument and the path in it."""
    traveller = app.task(name="traveller")(handler_of(annotation, []))

    manually = "SELECT orchestrator.enqueue('traveller', jsonb_build_object('argument', %s::jsonb))"
    handle = app.handle(scalar(connection, manually, Jsonb(value)))
    run_until_empty(app)

    row = task(connection, handle.id)
    assert ("dead_letter", 1) == (row.status, row.attempt)
    assert "the payload does not fit the handler traveller: " in row.error["message"]
    assert message in row.error["message"]
    assert SECRET not in str(row.error)
    assert "77077" not in str(row.error)
    assert traveller.name == "traveller"
