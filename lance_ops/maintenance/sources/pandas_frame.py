"""Conversion of pandas DataFrames to Arrow tables, with errors that name the column.

Conversion errors of pyarrow have six types, and some of them name no column.
"""

from collections import Counter
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError

_FAILURES = (pa.ArrowException, KeyError, OverflowError, TypeError, ValueError)


def table_of_frame(frame: Any, schema: pa.Schema | None = None, *, keep_index: bool = True) -> pa.Table:
    """Convert a DataFrame to a table.

    Args:
        frame: A pandas DataFrame.
        schema: Schema of the table; inferred if None.
        keep_index: Convert named index levels to columns. Unnamed levels usually count rows; `set_index(name,
            drop=False)` keeps the column.

    Raises:
        InvalidArgumentError: It is not a DataFrame, has duplicate column names, or a column that Arrow does
            not support.
    """
    if not _is_frame(frame):
        has_frame = hasattr(frame, "to_frame")
        raise InvalidArgumentError(
            f"cannot write pandas {type(frame).__name__} objects, expected a DataFrame",
            field="data",
            hint="call its to_frame('name')" if has_frame else "convert it to a DataFrame",
        )
    twice = [str(name) for name, count in Counter(frame.columns).items() if count > 1]
    if twice:
        raise InvalidArgumentError(
            f"duplicate column names in the DataFrame: {', '.join(twice)}",
            field="data",
            hint="rename or drop them, for example frame.loc[:, ~frame.columns.duplicated()]",
        )
    frame, preserve = _with_named_levels(frame) if keep_index else (frame, False)
    try:
        return pa.Table.from_pandas(frame, schema=schema, preserve_index=preserve)
    except _FAILURES as error:
        raise _unfit(frame, schema, error, bool(preserve)) from error


def _is_frame(data: Any) -> bool:
    bases = ((base.__module__.partition(".")[0], base.__name__) for base in type(data).mro())
    return ("pandas", "DataFrame") in bases


def _with_named_levels(frame: Any) -> tuple[Any, bool | None]:
    """Return the frame without dropped levels, and pyarrow's option for its index."""
    dropped = [
        number
        for number, name in enumerate(frame.index.names)
        if name is None or _repeats_column(frame, number, name)
    ]
    if len(dropped) == frame.index.nlevels:
        frame = frame.copy(deep=False)
        frame.index = range(len(frame))
        # Column names are recorded as in pandas, and the range is not a column.
        return frame, None
    return (frame.reset_index(level=dropped, drop=True) if dropped else frame), True


def _repeats_column(frame: Any, number: int, name: Any) -> bool:
    if name not in frame.columns:
        return False
    level = frame.index.get_level_values(number).to_series().reset_index(drop=True)
    return bool(level.equals(frame[name].reset_index(drop=True)))


def _unfit(frame: Any, schema: pa.Schema | None, error: Exception, with_index: bool) -> InvalidArgumentError:
    """Return the error of a conversion, with the first failing column."""
    columns = [(name, frame[name]) for name in frame.columns]
    if with_index:
        columns += [
            (name, frame.index.get_level_values(number).to_series())
            for number, name in enumerate(frame.index.names)
        ]
    for name, column in columns:
        known = schema is not None and str(name) in schema.names
        kind = schema.field(str(name)).type if schema is not None and known else None
        try:
            pa.array(column, kind, from_pandas=True)
        except _FAILURES as cause:
            wanted = "" if kind is None else f" as {kind}"
            return InvalidArgumentError(
                f"column {str(name)!r} of the DataFrame (dtype {column.dtype}) cannot be stored{wanted}:"
                f" {_first_reason(cause)}",
                field=str(name),
                hint=_hint(str(name), str(column.dtype)),
            )
    return InvalidArgumentError(f"the DataFrame cannot be stored: {_first_reason(error)}", field="data")


def _first_reason(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, pa.ArrowException) and error.args else str(error)


def _hint(name: str, dtype: str) -> str:
    if dtype.startswith("Sparse"):
        return f"make it dense: frame[{name!r}].sparse.to_dense()"
    if dtype in ("object", "category", "str", "string"):
        return f"convert all of its values to one type, for example frame.astype({{{name!r}: 'string'}})"
    return "cast it to a type that Arrow supports, or drop it"
