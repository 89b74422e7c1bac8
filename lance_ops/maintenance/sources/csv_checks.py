"""CSV input: detects losses of type inference (large numbers, other encodings) before rows are written.

Types are inferred from the first mebibyte of a file, as by pyarrow. Columns with types given by the caller or
the dataset are not checked: there, an invalid value is an error of pyarrow.
"""

import codecs
import re
import warnings
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import InvalidArgumentError, SuspiciousInputWarning
from lance_ops.maintenance.sources.byte_streams import open_bytes

_BLOCK = 1 << 20
_WHOLE = r"^[+-]?[0-9]+$"
_PADDED = r"^[+-]?0[0-9]+(\.[0-9]*)?$"
# Smaller integers are exact as doubles.
_EXACT = float(1 << 53)
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}
_ABOUT_UTF8 = re.compile("utf-?8", re.IGNORECASE)
_UTF8 = (
    "state the encoding, such as encoding='latin-1' (--encoding latin-1); or save the file as UTF-8, for "
    "example: iconv -f LATIN1 -t UTF-8 {0} > utf8.csv"
)


def check_inferred(
    path: str,
    delimiter: str,
    schema: pa.Schema,
    texts: pa.Table | None,
    *,
    stated: Collection[str],
) -> pa.Schema:
    """Check the types inferred from the first block of a file, and return the types for reading.

    Whole numbers from 2^63 to 2^64-1 are uint64. Warns with `SuspiciousInputWarning` of numbers with leading
    zeros, and of a single column whose name has another separator in it.

    Args:
        path: The file.
        delimiter: Between its columns.
        schema: As pyarrow infers it.
        texts: Inferred columns of numbers of the block, as strings; None without one.
        stated: Columns whose types are not inferred.

    Raises:
        InvalidArgumentError: A column is not UTF-8, or has integers that only fit a double.
    """
    binary = [item.name for item in schema if item.name not in stated and pa.types.is_binary(item.type)]
    if binary:
        raise not_utf8(path, f"the column {binary[0]!r}", field=binary[0])
    if len(schema) == 1:
        _check_single(path, delimiter, schema.names[0])
    for name in texts.column_names if texts is not None else ():
        assert texts is not None
        values = texts[name].drop_null()
        # Not pc.index: a scalar made from a Python value imports pandas if it is installed.
        padded = values.filter(pc.match_substring_regex(values, _PADDED))
        if len(padded):
            warnings.warn(
                f"column {name!r} of {path} is read as numbers: {padded[0].as_py()!r} loses its leading "
                f"zeros; keep them with column_types={{{name!r}: 'string'}} (--column-type {name}=string)",
                SuspiciousInputWarning,
                stacklevel=2,
            )
        if not pa.types.is_floating(schema.field(name).type):
            continue
        if _are_uint64(values):
            schema = schema.set(schema.get_field_index(name), pa.field(name, pa.uint64()))
        else:
            check_doubles(path, texts.select([name]), 0)
    return schema


def has_large_doubles(table: pa.Table, names: Sequence[str]) -> list[str]:
    """Return columns of doubles that have a number from 2^53 on, which may not be exact."""
    found = []
    for name in names:
        if name in table.column_names:
            greatest = pc.max(pc.abs(table[name])).as_py()
            if greatest is not None and greatest >= _EXACT:
                found.append(name)
    return found


def check_doubles(path: str, texts: pa.Table | None, start: int) -> None:
    """Reject integers that a column inferred as double cannot represent.

    Args:
        path: The file.
        texts: Columns of doubles as strings; None for none.
        start: Number of rows before these.

    Raises:
        InvalidArgumentError: There is such a number.
    """
    for name in texts.column_names if texts is not None else ():
        assert texts is not None
        _check_exact(path, name, texts[name].combine_chunks(), start)


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
        with open_bytes(path) as stream:
            return bytes(stream.read(2)) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    except (OSError, pa.ArrowException):
        return False


def separator_hint(path: str, delimiter: str) -> str | None:
    """Return a hint about a file whose first line has another separator than expected."""
    try:
        with open_bytes(path) as stream:
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
    return "commas are expected in a .csv file; state the delimiter, such as delimiter=';' (--delimiter ';')"


def _are_uint64(texts: pa.Array) -> bool:
    if not len(texts) or pc.max(pc.utf8_length(texts)).as_py() > 20:
        return False
    if not pc.all(pc.match_substring_regex(texts, r"^[0-9]+$")).as_py():
        return False
    return all(int(text) < 1 << 64 for text in texts.to_pylist())


def _check_exact(path: str, name: str, texts: pa.Array, start: int) -> None:
    long = pc.greater(pc.utf8_length(texts), 15)
    whole = pc.fill_null(pc.and_(long, pc.match_substring_regex(texts, _WHOLE)), fill_value=False)
    for row in pc.indices_nonzero(whole).to_pylist():
        text = texts[row].as_py()
        if int(float(text)) != int(text):
            raise InvalidArgumentError(
                f"column {name!r} would be read as doubles, which cannot represent {text} of row "
                f"{start + row + 1}: the nearest is {int(float(text))}",
                path=path,
                field=name,
                hint=f"state a type that holds it: column_types={{{name!r}: 'decimal128(38, 0)'}} or "
                f"'string' (--column-type {name}=string)",
            )


def _first_bad_byte(path: str) -> tuple[int, int, int] | None:
    """(line from 1, offset in the file, byte) of the first byte that is not UTF-8."""
    line, offset, pending = 1, 0, b""
    with open_bytes(path) as stream:
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
