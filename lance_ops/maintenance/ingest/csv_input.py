"""CSV input: detects losses of type inference (large numbers, other encodings) before rows are written.

Types are inferred from the first mebibyte of a file, as by pyarrow. Columns with types given by the caller or
the dataset are not checked: there, an invalid value is an error of pyarrow.
"""

import codecs
import re
import warnings
from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from lance_ops.errors import InvalidArgumentError, SuspiciousInputWarning
from lance_ops.maintenance.ingest.input_files import filesystem_of

_BLOCK = 1 << 20
_WHOLE = r"^[+-]?[0-9]+$"
_PADDED = r"^[+-]?0[0-9]+(\.[0-9]*)?$"
# Smaller integers are exact as doubles.
_EXACT = float(1 << 53)
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}
_ABOUT_UTF8 = re.compile("utf-?8", re.IGNORECASE)
_UTF8 = "save the file as UTF-8, for example: iconv -f LATIN1 -t UTF-8 {0} > utf8.csv"


def parse_options(delimiter: str) -> pacsv.ParseOptions:
    """Return the parse options of CSV files with a delimiter."""
    return pacsv.ParseOptions(delimiter=delimiter)


def check_inferred(path: str, delimiter: str, schema: pa.Schema, stated: Collection[str]) -> pa.Schema:
    """Check the types inferred from the first block of a file, and return the types for reading.

    Whole numbers from 2^63 to 2^64-1 are uint64. Warns with `SuspiciousInputWarning` of numbers with leading
    zeros, and of a single column whose name has another separator in it.

    Args:
        path: The file.
        delimiter: Between its columns.
        schema: As pyarrow infers it.
        stated: Columns whose types are not inferred.

    Raises:
        InvalidArgumentError: A column is not UTF-8, or has integers that only fit a double.
    """
    inferred = [field for field in schema if field.name not in stated]
    binary = [field.name for field in inferred if pa.types.is_binary(field.type)]
    if binary:
        raise not_utf8(path, f"the column {binary[0]!r}", field=binary[0])
    if len(schema) == 1:
        _check_single(path, delimiter, schema.names[0])
    names = [
        field.name
        for field in inferred
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    if not names or len(set(schema.names)) < len(schema):
        return schema
    first = next(_texts(path, delimiter, names), None)
    for name in names if first is not None else ():
        assert first is not None
        texts = first[name].drop_null()
        padded = pc.index(pc.match_substring_regex(texts, _PADDED), value=True).as_py()
        if padded >= 0:
            warnings.warn(
                f"column {name!r} of {path} is read as numbers: {texts[padded].as_py()!r} loses its leading "
                "zeros; create the dataset with a string column first to keep them",
                SuspiciousInputWarning,
                stacklevel=2,
            )
        if pa.types.is_floating(schema.field(name).type) and _are_uint64(texts):
            position = schema.get_field_index(name)
            schema = schema.set(position, pa.field(name, pa.uint64()))
        elif pa.types.is_floating(schema.field(name).type):
            _check_exact(path, name, first[name], 0)
    return schema


def checked_doubles(
    batches: Iterator[pa.RecordBatch], path: str, delimiter: str, stated: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Pass on batches; reject integers that a column inferred as double cannot represent.

    The text of such a column is read once more if any of its numbers is 2^53 or greater.

    Raises:
        InvalidArgumentError: There is such a number.
    """
    seen: set[str] = set()
    for batch in batches:
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if field.name in seen or field.name in stated or not pa.types.is_floating(field.type):
                continue
            greatest = pc.max(pc.abs(column)).as_py()
            if greatest is not None and greatest >= _EXACT:
                seen.add(field.name)
                start = 0
                for texts in _texts(path, delimiter, [field.name]):
                    _check_exact(path, field.name, texts[field.name], start)
                    start += texts.num_rows
        yield batch


def not_utf8(path: str, what: str, field: str | None = None) -> InvalidArgumentError:
    """Return the error for a CSV file that is not UTF-8, with the first byte that is not.

    Args:
        path: The file.
        what: The column, or what else could not be read.
        field: Name of the column, if it is known.
    """
    found = _first_bad_byte(path)
    where = "" if found is None else f": line {found[0]}, byte {found[1]} of the file is 0x{found[2]:02x}"
    return InvalidArgumentError(
        f"{what} is not UTF-8{where}", path=path, field=field, hint=_UTF8.format(path.rpartition("/")[2])
    )


def is_utf16(path: str) -> bool:
    """Return whether a file starts as UTF-16 or UTF-32 does, which spreadsheets write on request."""
    try:
        with _stream(path) as stream:
            return bytes(stream.read(2)) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    except (OSError, pa.ArrowException):
        return False


def separator_hint(path: str, delimiter: str) -> str | None:
    """Return a hint about a file whose first line has another separator than expected."""
    try:
        with _stream(path) as stream:
            line = stream.read(_BLOCK).partition(b"\n")[0].decode("utf-8", errors="replace")
    except (OSError, pa.ArrowException):
        return None
    found = [name for sign, name in _SEPARATORS.items() if sign in line and sign != delimiter]
    if not found or delimiter in line:
        return None
    return f"the first line has {found[0]}: {_separated(delimiter)}"


def _check_single(path: str, delimiter: str, name: str) -> None:
    for sign, said in _SEPARATORS.items():
        if sign != delimiter and sign in name:
            warnings.warn(
                f"{path} is read as a single column, {name!r}, whose name contains {said}: "
                f"{_separated(delimiter)}",
                SuspiciousInputWarning,
                stacklevel=3,
            )
            return


def _separated(delimiter: str) -> str:
    if delimiter == "\t":
        return "tabs are expected in a .tsv file; rename a file with commas to .csv"
    return (
        "commas are expected in a .csv file; rename a file with tabs to .tsv, or read it with pyarrow.csv "
        "and pass the table"
    )


def _texts(path: str, delimiter: str, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Return columns of a file as strings; null for null markers."""
    convert = pacsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), include_columns=names, strings_can_be_null=True
    )
    with _stream(path) as stream:
        read = pacsv.ReadOptions(block_size=_BLOCK)
        for batch in pacsv.open_csv(stream, read, parse_options(delimiter), convert):
            columns = [pc.utf8_trim_whitespace(column) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _stream(path: str) -> pa.NativeFile:
    filesystem, inner = filesystem_of(path)
    return filesystem.open_input_stream(inner)


def _are_uint64(texts: pa.Array) -> bool:
    if not len(texts) or not pc.all(pc.match_substring_regex(texts, r"^[0-9]+$")).as_py():
        return False
    return all(int(text) < 1 << 64 for text in texts.to_pylist())


def _check_exact(path: str, name: str, texts: pa.Array, start: int) -> None:
    whole = pc.fill_null(pc.match_substring_regex(texts, _WHOLE), fill_value=False)
    for row in pc.indices_nonzero(whole).to_pylist():
        text = texts[row].as_py()
        if len(text) > 15 and int(float(text)) != int(text):
            raise InvalidArgumentError(
                f"column {name!r} would be read as doubles, which cannot represent {text} of row "
                f"{start + row + 1}: the nearest is {int(float(text))}",
                path=path,
                field=name,
                hint="create the dataset with a string, decimal or uint64 column first, or read the file "
                "with pyarrow.csv and column_types, and pass the table",
            )


def _first_bad_byte(path: str) -> tuple[int, int, int] | None:
    """(line from 1, offset in the file, byte) of the first byte that is not UTF-8."""
    line, offset, pending = 1, 0, b""
    with _stream(path) as stream:
        while block := stream.read(_BLOCK):
            data = pending + block
            try:
                _, used = codecs.utf_8_decode(data, "strict", False)
            except UnicodeDecodeError as error:
                return line + data.count(b"\n", 0, error.start), offset + error.start, data[error.start]
            line += data.count(b"\n", 0, used)
            offset += used
            pending = data[used:]
    return (line, offset, pending[0]) if pending else None


def is_about_utf8(error: Exception) -> bool:
    """Return whether an error of pyarrow reports text that is not UTF-8."""
    return isinstance(error, UnicodeDecodeError) or _ABOUT_UTF8.search(str(error)) is not None
