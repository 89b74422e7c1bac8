"""Row time-to-live: `keep where ts > now - 90d`, and the predicate that deletes the other rows."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.policy.quantities import duration_text, parse_duration

_RULE = re.compile(
    r"(?:keep\s+where\s+)?(?P<column>[A-Za-z_][\w.]*|`[^`]+`)\s*"
    r"(?P<relation>>=?)\s*now\s*-\s*(?P<age>[\d.]+\s*\w+)",
    re.IGNORECASE,
)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class RowTTL:
    """Rows to keep. Rows without a time are kept.

    Attributes:
        column: Path of a column of dates or timestamps.
        age: Older rows are deleted.
        keeps_equal: Rows of exactly that age are kept (`>=`).
    """

    column: str
    age: timedelta
    keeps_equal: bool = False

    @classmethod
    def parse(cls, text: str) -> "RowTTL":
        """Parse `keep where ts > now - 90d`, or `ts > now - 90d`.

        Raises:
            ValueError: It has another form.
        """
        match = _RULE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a ttl rule; write for example keep where ts > now - 90d")
        age = parse_duration(match["age"])
        if age <= timedelta(0):
            raise ValueError(f"{text!r} keeps no row")
        return cls(match["column"].strip("`"), age, match["relation"] == ">=")

    def predicate(self, schema: pa.Schema, now: datetime) -> str:
        """Return the SQL condition of the rows to delete.

        Args:
            schema: Schema of the dataset.
            now: The time, aware.

        Raises:
            InvalidArgumentError: The column does not exist, or is not a date or timestamp.
        """
        data_type = self._type(schema)
        cutoff = (now - self.age).astimezone(UTC)
        relation = "<" if self.keeps_equal else "<="
        column = ".".join(f"`{part}`" for part in self.column.split("."))
        if pa.types.is_date(data_type):
            return f"{column} {relation} DATE '{cutoff.date().isoformat()}'"
        digits = {"s": "seconds", "ms": "milliseconds"}.get(data_type.unit, "microseconds")
        if data_type.tz is not None:
            # With its offset: a time without one would be read in the zone of the column.
            return f"{column} {relation} '{cutoff.isoformat(timespec=digits)}'"
        # A timestamp without a zone is read as UTC.
        text = cutoff.replace(tzinfo=None).isoformat(sep=" ", timespec=digits)
        return f"{column} {relation} TIMESTAMP '{text}'"

    def __str__(self) -> str:
        relation = ">=" if self.keeps_equal else ">"
        return f"keep where {self.column} {relation} now - {duration_text(self.age)}"

    def _type(self, schema: pa.Schema) -> pa.DataType:
        names = self.column.split(".")
        fields = schema
        for position, name in enumerate(names):
            index = fields.get_field_index(name) if isinstance(fields, pa.Schema | pa.StructType) else -1
            if index < 0:
                raise InvalidArgumentError(
                    f"column {self.column!r} not found",
                    field="ttl",
                    hint=f"columns: {', '.join(schema.names)}",
                )
            found = fields.field(index).type
            if position == len(names) - 1:
                if pa.types.is_timestamp(found) or pa.types.is_date(found):
                    return found
                raise InvalidArgumentError(
                    f"column {self.column!r} has type {found}",
                    field="ttl",
                    hint="a ttl rule requires a column of dates or timestamps",
                )
            fields = found
        raise AssertionError("a path requires at least one name")
