"""Values of options in statements: checks of names and types."""

from datetime import datetime
from typing import Any

from lance_ops.errors import InvalidArgumentError
from lance_ops.spark.sql.statements import Options

COMPACTION = {
    "target_rows_per_fragment": int,
    "strategy": str,
    "target_bytes_per_fragment": int,
    "tier_growth": int,
    "max_bytes_per_file": int,
    "materialize_deletions": bool,
    "materialize_deletions_threshold": float,
    "max_source_fragments": int,
    "defer_index_remap": bool,
    "batch_size": int,
}
NOT_OURS = frozenset({"max_rows_per_group", "num_threads"})
"""Tuning options of the connector, without effect here."""


def check_names(options: Options, known: set[str]) -> None:
    """Check for unknown options of a statement."""
    unknown = sorted(set(options) - known)
    if unknown:
        raise InvalidArgumentError(
            f"unknown option: {', '.join(unknown)}",
            field="WITH",
            hint=f"there are {', '.join(sorted(known))}",
        )


def typed(name: str, value: Any, kind: type) -> Any:
    """Convert the value of an option to its type; strings are parsed, as SQL may quote values."""
    if isinstance(value, str) and kind is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        if kind is not bool and not isinstance(value, bool):
            is_whole = kind is not int or not isinstance(value, float) or value.is_integer()
            if is_whole:
                return kind(value)
    except ValueError:
        pass
    if not isinstance(value, kind):
        raise InvalidArgumentError(f"cannot read {value!r} as {kind.__name__}", field=name)
    return value


def plain(value: Any) -> Any:
    """A value as procedures return it: timestamps in whole seconds since 1970."""
    return int(value.timestamp()) if isinstance(value, datetime) else value
