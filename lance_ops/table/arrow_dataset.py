"""pyarrow dataset of one version, which DuckDB, Polars and others scan with projection and filter pushdown.

pyarrow exposes a filter only as text. Comparisons of integers, strings, booleans and dates joined by AND are
translated, so that indices and statistics narrow the scan. pyarrow then applies the complete filter to the
remaining rows, so a filter that cannot be translated costs time and never changes the result.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.types as pat

from lance_ops.errors import UnsupportedError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.filter import Expression
from lance_ops.filter.expression import Column, Literal
from lance_ops.filter.junctions import all_of
from lance_ops.filter.predicates import Comparison
from lance_ops.table.readable import Readable

_COMPARISON = re.compile(r'\((\w+) (==|<|<=|>|>=) (-?\d+|\d{4}-\d\d-\d\d|"[^"\\]*"|true|false)\)')
_LITERAL = re.compile(r"\d+|true|false|null")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_OPERATORS = {"==": "="}


class ArrowDataset(pads.Dataset):  # type: ignore[misc]  # pyarrow counts as untyped
    """One version as a `pyarrow.dataset.Dataset`; from `Dataset.to_pyarrow_dataset`.

    Args:
        dataset: The version.
    """

    def __init__(self, dataset: Readable) -> None:
        # The constructor of the base class raises; there is no state to initialize.
        self._dataset = dataset

    def __reduce__(self) -> tuple[object, ...]:
        return (ArrowDataset, (self._dataset,))

    @property
    def schema(self) -> pa.Schema:
        """Columns of the dataset."""
        return self._dataset.schema

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int | None = None,
        **_: Any,
    ) -> pads.Scanner:
        """Prepare a scan that reads the columns of projection and filter only.

        Args:
            columns: Names, or expressions by name; all columns when None.
            filter: Condition on the rows.
            batch_size: Maximum rows of a batch.
            **_: Tuning options of pyarrow's own scans; ignored.
        """
        named = list(columns) if columns is not None and not isinstance(columns, Mapping) else None
        wanted = self.schema.names if named is None else named
        if filter is not None:
            said = str(filter)
            wanted = [*wanted, *(name for name in self.schema.names if name in said and name not in wanted)]
        batches = self._dataset.to_batches(
            [_quoted(name) for name in dict.fromkeys(wanted)],
            None if filter is None else pushed_filter(str(filter), self.schema),
            batch_size=batch_size,
        )
        if not wanted:
            # pyarrow counts rows by the columns of batches, so at least one column must be read.
            batches = self._dataset.to_batches(
                [_quoted(name) for name in self.schema.names[:1]], batch_size=batch_size
            )
        return pads.Scanner.from_batches(batches, columns=columns, filter=filter)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:  # noqa: A002
        """Return the number of rows, or of rows that match a filter; without a filter no data is read."""
        if filter is None:
            return self._dataset.count_rows()
        return int(self.scanner([], filter, **options).count_rows())

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Return the first rows."""
        return self.scanner(**options).head(num_rows)

    def take(self, indices: Any, **options: Any) -> pa.Table:
        """Return rows by their offsets."""
        return self.scanner(**options).take(indices)

    def to_table(self, **options: Any) -> pa.Table:
        """Return the rows as a table; see `scanner`."""
        return self.scanner(**options).to_table()

    def to_batches(self, **options: Any) -> Any:
        """Return the rows as a stream; see `scanner`."""
        return self.scanner(**options).to_batches()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(
            "this operation of a pyarrow dataset is not supported",
            path=self._dataset.uri,
            hint="use scanner(), to_table() or to_batches(), and continue with their results",
        )

    # The methods of the base class would access a native dataset object that does not exist here.
    filter = get_fragments = join = join_asof = replace_schema = sort_by = _refuse


def pushed_filter(text: str, schema: pa.Schema) -> Expression | None:
    """Return the part of a filter that indices and statistics can answer; a superset of the matching rows.

    Args:
        text: Text of a pyarrow filter.
        schema: Of the dataset.
    """
    found = [_comparison(part, schema) for part in _conjuncts(text.strip())]
    known = tuple(item for item in found if item is not None)
    return all_of(known) if known else None


def _conjuncts(text: str) -> list[str]:
    """Split a filter into its conjuncts, each in brackets."""
    if not (text.startswith("(") and text.endswith(")")):
        return []
    depth, in_text = 0, False
    for place, letter in enumerate(text):
        if letter == '"' and text[place - 1] != "\\":
            in_text = not in_text
        if in_text:
            continue
        depth += (letter == "(") - (letter == ")")
        if depth == 1 and text.startswith(" and ", place):
            return [*_conjuncts(text[1:place].strip()), *_conjuncts(text[place + 5 : -1].strip())]
    return [text]


def _comparison(text: str, schema: pa.Schema) -> Expression | None:
    match = _COMPARISON.fullmatch(text)
    if match is None or schema.names.count(match[1]) != 1:
        return None
    if match[3] in schema.names or _LITERAL.fullmatch(match[1]):
        # pyarrow writes column names without quotes: a column `true` looks like the boolean.
        return None
    kind, value = schema.field(match[1]).type, match[3]
    known: Any
    if pat.is_integer(kind) and re.fullmatch(r"-?\d+", value):
        known = int(value)
        if not _holds(kind, known):
            return None
    elif (pat.is_string(kind) or pat.is_large_string(kind)) and value.startswith('"'):
        known = value[1:-1]
    elif pat.is_date32(kind) and _DATE.fullmatch(value) and value >= "0001":
        known = (date.fromisoformat(value) - date(1970, 1, 1)).days
    elif pat.is_boolean(kind) and value in ("true", "false"):
        known = value == "true"
    else:
        return None
    return Comparison(_OPERATORS.get(match[2], match[2]), Column((match[1],), kind), Literal(known, kind))


def _holds(kind: pa.DataType, value: int) -> bool:
    bits = kind.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if pat.is_signed_integer(kind) else (0, 2**bits)
    return bool(low <= value < high)


def _quoted(name: str) -> str:
    return format_field_path([name])
