"""Read options: format, delimiter, encoding, types and nulls of input files."""

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, check_type

FORMATS = ("parquet", "arrow", "csv", "tsv", "json", "orc", "avro")
"""Names of the formats that are read; `jsonl` and `ipc` are other names of two."""

_OTHER_NAMES = {"jsonl": "json", "ndjson": "json", "ipc": "arrow", "feather": "arrow"}
_DECIMAL = re.compile(r"decimal(128|256)?\((\d+),\s*(-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([\w/+:-]+)\]")
_VECTOR = re.compile(r"(?:fixed_size_list|list)<(?:item: )?(\w+)>(?:\[(\d+)\])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How input files are read; all but `format` apply to CSV and TSV, and `column_types` to JSON, too.

    Attributes:
        format: One of `FORMATS`; None: by the name of each file.
        delimiter: Character between columns; None: a comma, or a tab in TSV files.
        encoding: Encoding of text, as Python names it.
        column_types: Types of columns, instead of inferred ones or those of the dataset.
        null_values: Texts that are null, in string columns too; None: an empty text, NA, null and their like,
            in columns of other types than string.
        column_names: Names of the columns of files without a header.
        decimal_point: Character of decimal numbers.
        timestamp_format: Format of dates and timestamps, as of strptime, e.g. "%d.%m.%Y"; None: ISO 8601.
    """

    format: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    column_types: tuple[tuple[str, pa.DataType], ...] = ()
    null_values: tuple[str, ...] | None = None
    column_names: tuple[str, ...] | None = None
    decimal_point: str = "."
    timestamp_format: str | None = None

    @classmethod
    def of(
        cls,
        *,
        format: str | None = None,  # noqa: A002 - as DuckDB, Spark and pyarrow name it
        column_types: Mapping[str, str | pa.DataType] | None = None,
        null_values: Iterable[str] | None = None,
        column_names: Iterable[str] | None = None,
        **others: Any,
    ) -> "ReadOptions":
        """Return checked options.

        Raises:
            InvalidArgumentError: An option has a value that makes no sense.
        """
        for name, given in (("null_values", null_values), ("column_names", column_names)):
            if isinstance(given, str):
                raise InvalidArgumentError(f"expected a list of texts, got {given!r}", field=name)
        return cls(
            format=None if format is None else format_named(format),
            column_types=tuple(
                (name, arrow_type(kind) if isinstance(kind, str) else _checked(name, kind))
                for name, kind in (column_types or {}).items()
            ),
            null_values=None if null_values is None else tuple(null_values),
            column_names=None if column_names is None else tuple(column_names),
            **{name: value for name, value in others.items() if value is not None},
        )

    def __post_init__(self) -> None:
        for name in ("delimiter", "decimal_point"):
            sign = getattr(self, name)
            if sign is not None and (not isinstance(sign, str) or len(sign) != 1 or ord(sign) > 127):
                hint = "for example ';' or '|'; a tab is $'\\t' in the shell, or the format tsv"
                raise InvalidArgumentError(
                    f"must be a single ASCII character, got {sign!r}", field=name, hint=hint
                )
        check_type(self.encoding, str, "the name of an encoding", field="encoding")
        try:
            found = codecs.lookup(self.encoding)
        except LookupError as error:
            raise InvalidArgumentError(
                f"unknown encoding {self.encoding!r}",
                field="encoding",
                hint="for example latin-1, cp1252, utf-16 or shift_jis",
            ) from error
        # Codecs that are no encodings of text, such as base64.
        if not getattr(found, "_is_text_encoding", True):
            raise InvalidArgumentError(f"{self.encoding!r} is not an encoding of text", field="encoding")
        object.__setattr__(self, "encoding", found.name)

    @property
    def text_only(self) -> tuple[str, ...]:
        """Options that were given and apply to text files alone."""
        usual = ReadOptions()
        names = ("delimiter", "encoding", "null_values", "column_names", "decimal_point", "timestamp_format")
        return tuple(name for name in names if getattr(self, name) != getattr(usual, name))

    def with_format(self, name: str) -> "ReadOptions":
        """Return the same options for files of a format."""
        return replace(self, format=name)


def _checked(name: str, kind: object) -> pa.DataType:
    if not isinstance(kind, pa.DataType):
        raise InvalidArgumentError(
            f"the type of column {name!r} must be an Arrow type or its name, got {kind!r}",
            field="column_types",
            hint="for example 'int64', 'string' or pyarrow.timestamp('us')",
        )
    return kind


def format_named(name: str) -> str:
    """Return one of `FORMATS` for a name of the user.

    Raises:
        InvalidArgumentError: There is no such format.
    """
    plain = str(name).lower().lstrip(".")
    found = _OTHER_NAMES.get(plain, plain)
    if found not in FORMATS:
        raise InvalidArgumentError(
            f"unknown format {name!r}", field="format", hint=f"one of {', '.join(FORMATS)}"
        )
    return found


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type of a name, such as `int64`, `timestamp[us]` or `decimal128(10, 2)`.

    Raises:
        InvalidArgumentError: There is no such type.
    """
    text = name.strip()
    decimal = _DECIMAL.fullmatch(text)
    zoned = _ZONED.fullmatch(text)
    vector = _VECTOR.fullmatch(text)
    try:
        if decimal is not None:
            make = pa.decimal256 if decimal[1] == "256" else pa.decimal128
            return make(int(decimal[2]), int(decimal[3]))
        if zoned is not None:
            return pa.timestamp(zoned[1], zoned[2])
        if vector is not None:
            size = () if vector[2] is None else (int(vector[2]),)
            return pa.list_(pa.type_for_alias(vector[1]), *size)
        return pa.type_for_alias(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{name!r} is not an Arrow type",
            field="column_types",
            hint="for example string, int64, double, bool, date32, timestamp[us], timestamp[us, UTC] or "
            "decimal128(10, 2)",
        ) from error
