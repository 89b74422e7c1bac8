"""Folder columns: columns in the names of Hive-style folders, `day=2024-05-01/country=GB/part.parquet`.

Each folder of a path that reads `name=value` gives every row of its files a value, wherever it stands in the
path. Names and values are percent-decoded; `__HIVE_DEFAULT_PARTITION__` is null. A column whose values are
whole numbers in all files is int64, dates are date32, timestamps are timestamp[us], all else is string, as
DuckDB infers them. In a column that a file or the dataset has, they are read as its type.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import InvalidArgumentError

_NULL = "__HIVE_DEFAULT_PARTITION__"
_FOLDER = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")


def folder_values(path: str) -> dict[str, str | None]:
    """Return the values in the folder names of a path, by column; None for null.

    Raises:
        InvalidArgumentError: Two folders contradict each other, or an escape is not UTF-8.
    """
    found: dict[str, str | None] = {}
    # Local paths may leave a folder again: k=1/../other/part.parquet.
    plain = path.partition("?")[0] if "://" in path else posixpath.normpath(path)
    for folder in plain.split("/")[:-1]:
        match = _FOLDER.fullmatch(folder)
        if match is None:
            continue
        try:
            name, text = (unquote(part, errors="strict") for part in match.groups())
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(
                f"the folder name {folder!r} has percent escapes that are not UTF-8", path=path
            ) from error
        value = None if text == _NULL else text
        if name in found and found[name] != value:
            raise InvalidArgumentError(
                f"two folders have different values of column {name!r}: {found[name]!r} and {value!r}",
                path=path,
                field=name,
            )
        found[name] = value
    return found


def infer_types(paths: Iterable[str]) -> dict[str, pa.DataType]:
    """Return the type of each folder column of some files; null for one without values."""
    texts: dict[str, list[str]] = {}
    for path in paths:
        for name, text in folder_values(path).items():
            texts.setdefault(name, []).extend([] if text is None else [text])
    return {name: _infer(values) for name, values in texts.items()}


def folder_fields(schema: pa.Schema, path: str, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the schema of a file with the folder columns that it does not have itself, at the end.

    Raises:
        InvalidArgumentError: A value does not fit the type of its column.
    """
    for name, text in folder_values(path).items():
        if name in schema.names:
            _parse(text, schema.field(name).type, name, path)
        else:
            _parse(text, types[name], name, path)
            schema = schema.append(pa.field(name, types[name]))
    return schema


def with_folder_columns(batch: pa.RecordBatch, path: str, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Return the rows of a file with its folder columns.

    Raises:
        InvalidArgumentError: The file has such a column, and other values in it.
    """
    for name, text in folder_values(path).items():
        if name in batch.schema.names:
            _check_equal(batch[name], _parse(text, batch[name].type, name, path), text, name, path)
            continue
        value = _parse(text, types[name], name, path)
        column = pa.repeat(value, batch.num_rows)
        batch = pa.RecordBatch.from_arrays(
            [*batch.columns, column], schema=batch.schema.append(pa.field(name, types[name]))
        )
    return batch


def _infer(texts: list[str]) -> pa.DataType:
    if not texts:
        return pa.null()
    if all(_WHOLE.fullmatch(text) and -(1 << 63) <= int(text) < 1 << 63 for text in texts):
        return pa.int64()
    if all(_DATE.fullmatch(text) and _reads(date.fromisoformat, text) for text in texts):
        return pa.date32()
    if all(_TIMESTAMP.fullmatch(text) and _reads(datetime.fromisoformat, text) for text in texts):
        return pa.timestamp("us")
    return pa.string()


def _reads(parse: object, text: str) -> bool:
    assert callable(parse)
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _parse(text: str | None, kind: pa.DataType, name: str, path: str) -> pa.Scalar:
    """Parse the value of a folder in the type of its column."""
    if text is None:
        return pa.scalar(None, kind)
    try:
        return pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"the folder {name}={text} does not fit the column {name!r} of type {kind}",
            path=path,
            field=name,
            hint="rename the folder, or read the files without the columns of their folders: "
            "pyarrow.dataset.dataset(path)",
        ) from error


def _check_equal(values: pa.Array, expected: pa.Scalar, text: str | None, name: str, path: str) -> None:
    if expected.is_valid:
        same = pc.fill_null(pc.equal(_decoded(values), _decoded_scalar(expected)), fill_value=False)
    else:
        same = values.is_null()
    if pc.all(same, min_count=0).as_py():
        return
    row = pc.index(same, value=False).as_py()
    raise InvalidArgumentError(
        f"column {name!r} is {values[row].as_py()!r} in the file, but {text!r} in the name of its folder",
        path=path,
        field=name,
        hint="move the rows to the folder of their value, or read the files without the columns of their "
        "folders: pyarrow.dataset.dataset(path)",
    )


def _decoded(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _decoded_scalar(value: pa.Scalar) -> pa.Scalar:
    return pa.scalar(value.as_py(), value.type.value_type) if pa.types.is_dictionary(value.type) else value
