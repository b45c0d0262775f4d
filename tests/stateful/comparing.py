"""The differences between what the reference expects and what the database holds, as text."""

from tests.stateful.interface import Row, Snapshot


def differences(expected: Snapshot, found: Snapshot) -> list[str]:
    """Return the differences as text."""
    return [
        line
        for table in expected
        if expected[table] != found[table]
        for line in unequal(table, expected[table], found[table])
    ]


def unequal(table: str, expected: list[Row], found: list[Row]) -> list[str]:
    if table == "attempts":
        # One statement may write several of these rows in any order.
        expected, found = sorted(expected, key=repr_of), sorted(found, key=repr_of)
    lines = [
        f"{table}: {column} is {there[column]}, not {row[column]}, in {there}"
        for row, there in zip(expected, found, strict=False)
        for column in row
        if row[column] != there[column]
    ]
    if len(expected) != len(found):
        lines.append(f"{table}: expected {expected}, found {found}")
    return lines


def repr_of(row: Row) -> str:
    return repr([(name, float(v) if isinstance(v, int) else v) for name, v in sorted(row.items())])
