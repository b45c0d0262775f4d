"""The generated parts of the .sql files that list the options of a task.

`of` is the alias in front of each name: `simple options of task` lists task.priority, … A long list of names is broken
into lines.
"""

from collections.abc import Callable, Iterable

from orchestrator.task.columns import BY_NAME, NAME_FAULTS, OPTIONS, Fault, Option

# Type names that no search_path can redirect; integer and interval are keywords of the grammar.
SAFE_TYPES = {"integer": "integer", "interval": "interval", "timestamptz": "pg_catalog.timestamptz"}

# The options that the functions treat individually.
SPECIAL = frozenset({"queue", "run_at", "delay", "key", "key_window"})
SIMPLE = [option for option in OPTIONS if option.name not in SPECIAL]
DEFAULTED = [option for option in SIMPLE if option.default]
SHARED = [option for option in OPTIONS if option.name not in ("key", "key_window")]


# In an entry of a list it stands for a space.
NO_BREAK = "\N{NO-BREAK SPACE}"


class Names(str):
    """A list of names, which may be broken at any space; any other line stays as it is."""

    __slots__ = ()


def listed(names: Iterable[str], *, of: str = "", closing: str = "") -> list[str]:
    """List names on as few lines as there may be; a line ends only behind a comma."""
    whole = (name.replace(" ", NO_BREAK) for name in names)
    return [Names(", ".join(f"{of}.{name}" if of else name for name in whole) + closing)]


def arguments(_of: str) -> list[str]:
    """The options as arguments of a function; they end its list."""
    return ",\n".join(f"{option.name} {option.sql} DEFAULT NULL" for option in OPTIONS).splitlines()


def sent_arguments(_of: str) -> list[str]:
    """The options that a producer sends as text for one task, on a user's session: so all names are qualified."""
    sent = [option for option in OPTIONS if option.fast == "all" and option.name not in ("key", "key_window")]
    text = "CAST(%({0})s AS pg_catalog.text)"
    return ",\n".join(
        f"{option.name} => {text if option.sql == 'text' else f'CAST({text} AS {SAFE_TYPES[option.sql]})'}".format(
            option.name
        )
        for option in sent
    ).splitlines()


def signature(_of: str) -> list[str]:
    return listed(option.sql for option in OPTIONS)


def columns(_of: str) -> list[str]:
    """The columns that a producer may fill, type and payload apart."""
    return listed(option.column for option in OPTIONS if option.column)


def record(_of: str) -> list[str]:
    """The type of each member of an item."""
    return listed(f"{option.name} {option.sql}" for option in SHARED)


def members(_of: str) -> list[str]:
    return listed(f"'{option.name}'" for option in OPTIONS)


def shared_members(_of: str) -> list[str]:
    return listed(f"'{option.name}'" for option in SHARED)


def list_members(_of: str) -> list[str]:
    return listed(f"'{option.name}'" for option in OPTIONS if option.kind == "texts")


def item(of: str) -> list[str]:
    """The simple options, as arguments of jsonb_build_object."""
    return listed(f"'{option.name}', {of}.{option.name}" for option in SIMPLE)


def simple(of: str) -> list[str]:
    return listed((option.name for option in SIMPLE), of=of)


def careful(of: str) -> list[str]:
    """The options that the fast path of enqueue() does not write."""
    return listed((option.name for option in OPTIONS if option.fast != "all"), of=of)


def defaulted(of: str) -> list[str]:
    return listed((option.column or "" for option in DEFAULTED), of=of, closing=",")


def values(of: str) -> list[str]:
    """The value of a column: from the producer, else from the type, then the queue, then the built-in default."""
    return [f"{chain(f'{of}.{option.name}', option)}," for option in DEFAULTED]


def defaults(_of: str) -> list[str]:
    return [f"{chain('', option)}," for option in DEFAULTED]


def resolved(of: str) -> list[str]:
    """The same with their names, and the options that are not inherited."""
    return [
        (
            f"{chain(f'{of}.{option.name}', option)} AS {option.name}"
            if option.is_inherited
            else f"{of}.{option.name}"
        )
        + ","
        for option in SIMPLE
    ]


def chain(given: str, option: Option) -> str:
    asked = [f"{table}.{option.column}" for table in "tq"] if option.is_inherited else []
    return f"coalesce({', '.join([*filter(None, [given]), *asked, option.default])})"


def priority(of: str) -> list[str]:
    """The value of the priority, of which the position is made."""
    return [chain(f"{of}.priority", BY_NAME["priority"])]


def priority_read(of: str) -> list[str]:
    return [reading(BY_NAME["priority"], of)]


def written(of: str) -> list[str]:
    """The values of the columns of simple options."""
    return listed(
        f"{of}.{option.name}::smallint" if option.is_narrow else f"{of}.{option.name}" for option in SIMPLE
    )


def valid_values(of: str) -> list[str]:
    """Conditions for valid values of the simple options, with inherited values resolved."""
    return [
        f"AND {tested(option, f'{of}.{option.name}')}"
        if option.default
        else f"AND ({of}.{option.name} IS NULL OR {tested(option, f'{of}.{option.name}')})"
        for option in SIMPLE
    ]


def valid_arguments(of: str) -> list[str]:
    """The same for the arguments of enqueue(), on its fast path."""
    return [
        f"AND ({of}.{option.name} IS NULL OR {tested(option, f'{of}.{option.name}')})"
        for option in SIMPLE
        if option.fast == "all"
    ]


def tested(option: Option, value: str) -> str:
    return option.valid_if.replace("{}", value)


def faults(of: str) -> list[str]:
    """The faults of a new row, as the branches of a CASE."""
    of_types = [line for fault in NAME_FAULTS["type"] for line in branch(fault, f"{of}.type")]
    return of_types + branches(OPTIONS, of)


def narrow_faults(of: str) -> list[str]:
    """The faults of integers that do not fit a smallint."""
    return branches((option for option in SIMPLE if option.is_narrow), of)


def default_faults(of: str) -> list[str]:
    """The faults of the defaults of a queue or a type."""
    return branches((option for option in SIMPLE if option.is_inherited), of)


def branches(options: Iterable[Option], of: str) -> list[str]:
    return [
        line
        for option in options
        for fault in option.faults
        for line in branch(fault, f"{of}.{option.column}")
    ]


def branch(fault: Fault, value: str) -> list[str]:
    return [f"WHEN {fault.when.replace('{}', value)}", f"    THEN {fault.sentence.replace('{}', value)}"]


def documents(of: str) -> list[str]:
    """Check the JSON objects other than the payload too: each claim reads them as well."""
    lines: list[str] = []
    for option in SIMPLE:
        if option.kind == "document":
            lines += [
                f"IF {of}.{option.column} IS NOT NULL THEN",
                f"    PERFORM {tested(option, f'{of}.{option.column}')};",
                "END IF;",
            ]
    return lines


def read(of: str) -> list[str]:
    """The members that the fast path of enqueue_many reads from an item."""
    return [f"{reading(option, of)} AS {option.name}," for option in SIMPLE if option.fast != "none"]


def reading(option: Option, item: str) -> str:
    if option.kind in ("document", "texts"):
        return f"nullif({item} -> '{option.name}', 'null')"
    value = f"({item} ->> '{option.name}')::{option.sql}"
    return chain(value, option) if option.default else value


def valid_members(of: str) -> list[str]:
    """The conditions on that path; a list is still JSON there."""
    lines = []
    for option in SIMPLE:
        value = f"{of}.{option.name}"
        if option.fast == "none":
            continue
        if option.default:
            lines.append(f"AND {tested(option, value)}")
        elif option.kind == "texts":
            lines += [
                f"AND ({value} IS NULL OR jsonb_typeof({value}) = 'array' AND octet_length({value}::text) <= 200",
                f"    AND NOT jsonb_path_exists({value}, '$[*] ? (@.type() != \"string\")'))",
            ]
        else:
            lines.append(f"AND ({value} IS NULL OR {tested(option, value)})")
    return lines


def fast_columns(_of: str) -> list[str]:
    return listed(option.column or "" for option in SIMPLE if option.fast != "none")


def made(of: str) -> list[str]:
    """The values that the fast path of enqueue_many writes."""
    lines = []
    for option in SIMPLE:
        if option.fast == "none":
            continue
        if option.kind == "texts":
            member = f"{of} -> '{option.name}'"
            array = f"ARRAY(SELECT jsonb_array_elements_text({member}))"
            lines.append(f"CASE WHEN jsonb_typeof({member}) = 'array' THEN {array} END,")
        else:
            lines.append(f"{reading(option, of)},")
    lines[-1] = lines[-1].removesuffix(",")
    return lines


def fast_members(_of: str) -> list[str]:
    return listed(f"'{option.name}'" for option in OPTIONS if option.fast != "none")


def changed(_of: str) -> list[str]:
    """Conditions that are true if an UPDATE changes a producer's column."""
    return [
        f"OR OLD.{option.column} IS DISTINCT FROM NEW.{option.column}" for option in OPTIONS if option.column
    ]


OPTION_PARTS: dict[str, Callable[[str], list[str]]] = {
    "arguments": arguments,
    "sent arguments": sent_arguments,
    "signature": signature,
    "columns": columns,
    "record": record,
    "members": members,
    "shared members": shared_members,
    "list members": list_members,
    "fast members": fast_members,
    "item": item,
    "simple options": simple,
    "careful options": careful,
    "defaulted columns": defaulted,
    "values": values,
    "defaults": defaults,
    "resolved options": resolved,
    "priority": priority,
    "priority read": priority_read,
    "written values": written,
    "valid values": valid_values,
    "valid arguments": valid_arguments,
    "valid members": valid_members,
    "faults": faults,
    "smallint faults": narrow_faults,
    "default faults": default_faults,
    "documents": documents,
    "members read": read,
    "fast columns": fast_columns,
    "members written": made,
    "changed options": changed,
}
