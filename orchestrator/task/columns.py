"""The only list of a task's columns, and of the options that fill them.

The SQL that lists columns or options (`enqueue`, the triggers, the statements that finish a task) is rendered from this
module: `make render` renews the parts of the .sql files between `-- generated: …` and `-- end`. The Python producer,
the command line and the reference pages read it too. To add an option, see CONTRIBUTING.md.

In SQL templates `{}` stands for the value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["name", "text", "integer", "moment", "span", "texts", "document"]

SQL_TYPES: dict[Kind, str] = {
    "name": "text",
    "text": "text",
    "integer": "integer",
    "moment": "timestamptz",
    "span": "interval",
    "texts": "text[]",
    "document": "jsonb",
}
PRIORITIES = {"low": 25, "normal": 50, "high": 75, "critical": 100}
NAME_CHARACTERS_MAX = 200
KEY_CHARACTERS_MAX = 500
TAGS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A refusal of the database: its condition and its sentence, both SQL."""

    when: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of a task, besides its type and its payload."""

    name: str
    kind: Kind
    column: str | None
    """The column that keeps it; None: it only decides about another column."""
    meaning: str
    """For the command line and the reference, in a few words."""
    is_inherited: bool = False
    """Without a value, the type's default applies, then the queue's, then `default`. Both have such a column."""
    default: str = ""
    """The built-in default; SQL."""
    is_narrow: bool = False
    """The column is a smallint. The argument is an integer, so that a larger number gets our sentence."""
    valid_if: str = ""
    """A quick test that only valid values pass; SQL. Any other value takes the careful way, which finds the fault."""
    faults: tuple[Fault, ...] = ()
    label: str = ""
    """Its name in a refusal."""
    least: int = 0
    most: int = 0
    """The bounds of an integer."""
    words: Mapping[str, int] | None = None
    """Integers that have names."""
    fast_in: Literal["all", "sets", "none"] = "none"
    """Whether the fast way of `enqueue_many` ("sets") and also that of `enqueue` ("all") writes it. There each option
    costs every task some time. A task with any other option takes the careful way."""

    @property
    def fast(self) -> Literal["all", "sets", "none"]:
        """The same, but "all" for an option with a default, which every task gets."""
        return "all" if self.default else self.fast_in

    @property
    def sql(self) -> str:
        """The type of the argument."""
        return SQL_TYPES[self.kind]


def between(what: str, least: int, most: int) -> dict[str, Any]:
    """Bound an integer."""
    sentence = f"format('{what} is %s; it must lie between {least} and {most}', {{}})"
    return {
        "label": what,
        "least": least,
        "most": most,
        "valid_if": f"{{}} BETWEEN {least} AND {most}",
        "faults": (Fault(when=f"{{}} NOT BETWEEN {least} AND {most}", sentence=sentence),),
    }


def too_long(what: str, most: int) -> tuple[Fault, ...]:
    """Refuse a text that is empty, too long, or holds a control character."""
    return (
        Fault(when="{} = ''", sentence=f"'{what} is empty'"),
        Fault(
            when=f"char_length({{}}) > {most}",
            sentence=f"format('{what} has %s characters; at most {most} are allowed', char_length({{}}))",
        ),
    )


NAME_FAULTS = {
    what: (*too_long(f"the {what}", NAME_CHARACTERS_MAX),
           Fault(when="{} ~ '[[:cntrl:]]'", sentence=f"'the {what} holds a control character'"))
    for what in ("type", "queue")
}  # fmt: skip
NAME_IS_VALID = f"char_length({{}}) BETWEEN 1 AND {NAME_CHARACTERS_MAX} AND {{}} !~ '[[:cntrl:]]'"

OPTIONS = (
    Option(
        name="queue", kind="name", column="queue", fast_in="all",
        meaning="the queue; without it that of the type",
        valid_if=NAME_IS_VALID, faults=NAME_FAULTS["queue"],
    ),
    Option(
        name="priority", kind="integer", column="priority", fast_in="all",
        meaning="0 to 100, or low, normal, high, critical",
        is_inherited=True, default="50", is_narrow=True, words=PRIORITIES, **between("the priority", 0, 100),
    ),
    Option(
        name="run_at", kind="moment", column="run_at", fast_in="all",
        meaning="the earliest time at which the task may run",
        valid_if="{} BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'",
        faults=(Fault(
            when="NOT isfinite({}) OR {} NOT BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'",
            sentence="format('run_at is %s; it must lie between the years 1970 and 9000', {})",
        ),),
    ),
    Option(name="delay", kind="span", column=None, fast_in="all", meaning="the time to wait before the task may run"),
    Option(
        name="key", kind="text", column="idempotency_key", fast_in="all",
        meaning="a second enqueue of this type with the same key returns the first task",
        valid_if=f"char_length({{}}) BETWEEN 1 AND {KEY_CHARACTERS_MAX}",
        faults=too_long("the idempotency key", KEY_CHARACTERS_MAX),
    ),
    Option(
        name="key_window", kind="span", column=None, fast_in="all",
        meaning="how long the key is kept; without it 24 hours",
    ),
    Option(
        name="max_attempts", kind="integer", column="max_attempts", fast_in="all",
        meaning="the number of executions, with the first",
        is_inherited=True, default="4", is_narrow=True, **between("max_attempts", 1, 32_767),
    ),
    Option(
        name="timeout", kind="span", column="timeout", fast_in="all",
        meaning="the time limit of an attempt; 0 is no limit",
        is_inherited=True, default="interval '300 seconds'",
        valid_if="{} BETWEEN interval '0' AND interval '100 years'",
        faults=(Fault(
            when="{} NOT BETWEEN interval '0' AND interval '100 years'",
            sentence="format('the timeout is %s; it must lie between 0 (none) and 100 years', {})",
        ),),
    ),
    Option(
        name="tags", kind="texts", column="tags", fast_in="sets",
        meaning="words for your own queries",
        valid_if=(
            "array_position({}, NULL) IS NULL AND coalesce(array_ndims({}), 1) = 1"
            f" AND cardinality({{}}) <= {TAGS_MAX}"
            f" AND octet_length(array_to_string({{}}, '')) <= {NAME_CHARACTERS_MAX}"
        ),
        faults=(
            Fault(when="array_ndims({}) > 1", sentence="'a tag is a list; each tag must be a text'"),
            Fault(
                when=f"cardinality({{}}) > {TAGS_MAX}",
                sentence=f"format('there are %s tags; at most {TAGS_MAX} are allowed', cardinality({{}}))",
            ),
            Fault(
                when=(
                    "EXISTS (SELECT FROM unnest({}) AS t (tag)"
                    f" WHERE t.tag IS NULL OR char_length(t.tag) > {NAME_CHARACTERS_MAX})"  # nosec B608 # a constant
                ),
                sentence=f"'a tag is NULL or has more than {NAME_CHARACTERS_MAX} characters'",
            ),
        ),
    ),
    Option(
        name="metadata", kind="document", column="metadata", fast_in="sets",
        meaning="a JSON object beside the payload",
        valid_if="orchestrator.check_payload({}, 'metadata')",
    ),
    Option(
        name="trace_context", kind="document", column="trace_context", fast_in="sets",
        meaning="the W3C headers of the task's trace",
        valid_if="orchestrator.check_payload({}, 'trace_context')",
    ),
)  # fmt: skip

BY_NAME = {option.name: option for option in OPTIONS}

KEPT = (
    "id", "position", "run_at", "created_at", "claimed_at", "deadline", "workflow_id", "parent_id", "aging_us",
    "timeout", "worker_id", "priority", "attempt", "max_attempts", "queue", "type", "payload", "idempotency_key",
    "progress", "tags", "metadata", "trace_context", "tenant", "limits", "requires", "gates",
)  # fmt: skip
"""The columns that stay unchanged when a task ends, in any way. The statements add those that they change."""

ONLY_OF_FEATURES = frozenset({"workflow_id", "tenant", "limits", "requires", "gates"})
"""NULL if `holds` is NULL: the statement for plain tasks does not copy them."""
