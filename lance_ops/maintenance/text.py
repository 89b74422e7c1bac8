"""Text: numbers and small tables as people read them, for plans and results."""

from collections.abc import Sequence

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def bytes_text(size: int) -> str:
    """A size in decimal units: 999 B, 1.5 kB, 12 MB."""
    value = float(size)
    for unit in _UNITS:
        if abs(value) < 999.5 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{value:.1f} {unit}" if unit != "B" and abs(value) < 9.95 else f"{value:.0f} {unit}"


def seconds_text(seconds: float) -> str:
    """A duration in the unit that fits: 0.4 ms, 12 ms, 3.4 s, 5 min, 2.5 h, 3.1 days."""
    if seconds < 0.9995:
        value = seconds * 1000
        return f"{value:.0f} ms" if value >= 9.95 or not value else f"{value:.1f} ms"
    for size, unit in ((1, "s"), (60, "min"), (3600, "h"), (86400, "days")):
        value, text = seconds / size, unit
        if value < (100 if unit == "s" else 90 if unit == "min" else 36):
            break
    return f"{value:.1f} {text}" if value < 9.95 else f"{value:,.0f} {text}"


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: 1 row, 12,000 rows, 3 indices (`plural` where adding an s is not enough)."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def share_text(share: float) -> str:
    """A share in percent, 84.4%; only what is whole is 100.0%, and only what is nothing 0.0%."""
    return f"{share if share in (0.0, 1.0) else min(max(share, 0.001), 0.999):.1%}"


def ids_text(ids: Sequence[int], limit: int = 8) -> str:
    """Ids with runs drawn together: 0-3, 7, 9-12 and 4 more."""
    runs: list[list[int]] = []
    for value in sorted(ids):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:limit]]
    left = sum(last - first + 1 for first, last in runs[limit:])
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]], limit: int | None = 40) -> str:
    """A plain table of at most `limit` rows; columns of numbers go to the right, except the first."""
    shown = [tuple(header), *rows[:limit]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(header))]
    numeric = [column > 0 and all(row[column][:1].isdigit() for row in rows) for column in range(len(header))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in shown
    ]
    if limit is not None and len(rows) > limit:
        lines.append(f"... and {len(rows) - limit:,} more")
    return "\n".join(lines)
