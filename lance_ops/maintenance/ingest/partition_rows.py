"""The rows of a partition as an SQL predicate on the columns that partitions are made of.

It is built when the types of the columns are known: a month is a range of instants, of wall-clock times in
the time zone of the partitions, or of dates, and a key is a string, a number or a date.

When clocks are set back, an hour of wall-clock times is repeated, and a timestamp without a time zone is
ambiguous. It counts as the first: the partition of the repeated hour has no wall-clock times, and rows of
both hours belong to the one before it. Times skipped when clocks are set forward belong to the partition in
which they are skipped.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.types as pt

from lance_ops.errors import InvalidArgumentError
from lance_ops.filter import column_sql

_PART = re.compile(r"(?:\A|(?!\A)\.)(?:`((?:[^`]|``)+)`|([^.`][^.]*))")
_BOOLEANS = {"true": "TRUE", "false": "FALSE"}


@dataclass(frozen=True, slots=True)
class Bound:
    """Start or end of a partition, for each type of column.

    Attributes:
        instant: Instant in UTC.
        shown: Wall-clock time in the partitions' time zone, without a zone.
        wall_clock: See the function of this name.
    """

    instant: datetime
    shown: datetime
    wall_clock: datetime

    @classmethod
    def of(cls, moment: datetime) -> "Bound":
        """Return the bound for an instant in the time zone of the partitions."""
        return cls(moment.astimezone(UTC), moment.replace(tzinfo=None, fold=0), wall_clock(moment))


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """Rule for the rows of a partition in one column.

    Attributes:
        column: A path into a struct is joined by dots; a part that contains a dot is quoted by backticks,
            unless the whole string is the name of a column.
        key: The partition.
        start: Start of a time partition.
        end: Start of the next one.
    """

    column: str
    key: str
    start: Bound | None = None
    end: Bound | None = None


def rows_of_partition(rules: Sequence[PartitionRule], schema: pa.Schema) -> str:
    """Return the predicate that selects the rows of a partition.

    Args:
        rules: One for each dimension of the partitions.
        schema: Schema of the dataset.

    Raises:
        InvalidArgumentError: A column does not exist, or its type does not match the partitions.
    """
    parts = [_rows_of(rule, schema) for rule in rules]
    return parts[0] if len(parts) == 1 else " AND ".join(f"({part})" for part in parts)


def _rows_of(rule: PartitionRule, schema: pa.Schema) -> str:
    column = rule.column
    path = _path_of(column, schema)
    kind = _type_of(column, path, schema)
    name = column_sql(path)
    by_key = _is_text(kind) or (pt.is_integer(kind) and rule.key.isdecimal())
    if rule.start is not None and rule.end is not None and not by_key:
        start, end = (_moment(bound, kind, column) for bound in (rule.start, rule.end))
        return f"{name} >= {start} AND {name} < {end}"
    return f"{name} = {_constant(rule.key, kind, column)}"


def wall_clock(moment: datetime) -> datetime:
    """Return the wall-clock bound of a partition, such that each time belongs to one partition.

    Args:
        moment: An instant, in the time zone of the partitions.

    Returns:
        The wall-clock time, without a zone. Within a repeated hour, the end of that hour: all times before it
        already occurred.
    """
    shown = moment.replace(tzinfo=None)
    if not moment.fold:
        return shown

    def is_repeated(seconds: int) -> bool:
        at = moment + timedelta(seconds=seconds)
        return at.replace(fold=0).utcoffset() != at.replace(fold=1).utcoffset()

    before, now = moment.replace(fold=0).utcoffset(), moment.utcoffset()
    assert before is not None
    assert now is not None
    longest = int((before - now).total_seconds())
    return shown + timedelta(seconds=bisect_left(range(longest), True, key=lambda at: not is_repeated(at)))


def _path_of(column: str, schema: pa.Schema) -> tuple[str, ...]:
    """Split a path into structs; the name of a column is one part, whatever it contains."""
    if column in schema.names:
        return (column,)
    parts, end = [], 0
    for found in _PART.finditer(column):
        if found.start() != end:
            break
        quoted, plain = found.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        end = found.end()
    return tuple(parts) if parts and end == len(column) else (column,)


def _type_of(column: str, path: tuple[str, ...], schema: pa.Schema) -> pa.DataType:
    kind: pa.DataType = pa.struct(list(schema))
    for part in path:
        position = kind.get_field_index(part) if pt.is_struct(kind) else -1
        if position < 0:
            raise InvalidArgumentError(
                f"column {column!r} not found",
                field="partition_column",
                hint=f"columns: {', '.join(schema.names)}",
            )
        kind = kind.field(position).type
    return kind.value_type if pt.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _moment(bound: Bound, kind: pa.DataType, column: str) -> str:
    if pt.is_timestamp(kind):
        return f"'{(bound.wall_clock if kind.tz is None else bound.instant).isoformat()}'"
    if pt.is_date(kind):
        shown = bound.shown
        if (shown.hour, shown.minute, shown.second, shown.microsecond) != (0, 0, 0, 0):
            raise _unfit(column, kind, f"the partition starts or ends at {shown.isoformat()}")
        return f"DATE '{shown.date().isoformat()}'"
    raise _unfit(
        column, kind, "time partitions require a timestamp, a date, or their keys as string or number"
    )


def _constant(key: str, kind: pa.DataType, column: str) -> str:
    if _is_text(kind):
        quoted = key.replace("'", "''")
        return f"'{quoted}'"
    try:
        if pt.is_integer(kind):
            return str(int(key))
        if pt.is_date(kind):
            return f"DATE '{date.fromisoformat(key).isoformat()}'"
        if pt.is_boolean(kind):
            return _BOOLEANS[key.lower()]
    except (ValueError, KeyError) as error:
        raise _unfit(column, kind, f"the key {key!r} is not a value of its type") from error
    raise _unfit(column, kind, "keys must be strings, integers, dates, or true and false")


def _unfit(column: str, kind: pa.DataType, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"column {column!r} of type {kind} cannot identify the rows of a partition: {why}",
        field="partition_column",
        hint="use a column with the keys as strings; or `replace_where` of an ingest, a function that "
        "returns the predicate",
    )
