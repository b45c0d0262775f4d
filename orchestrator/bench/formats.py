"""Write figures with three significant digits, so that they fit into a column."""


def measured(value: float, unit: str) -> str:
    """Write a figure with its unit, in nine characters at most."""
    return f"{short(value)}{ {'tasks/s': '/s', '1/s': '/s', '1/task': ''}.get(unit, f' {unit}') }"


def short(value: float) -> str:
    """Write a number with three significant digits."""
    if abs(value) >= 999_500:
        return f"{value / 1e6:.3g}M"
    if abs(value) >= 9_995:
        return f"{value / 1e3:.3g}k"
    if abs(value) >= 99.5:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def cpu(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2g}" if seconds < 1 else short(seconds)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
