"""JSONB: how the format keeps JSON documents, as words that say what follows and how long it is.

A document is a header (what it is and how many elements it has), a word for each element (its type and its
length in bytes; of an object those of all names come first), and then the elements themselves. Numbers and
words have the most significant byte first. Members of objects are in the order of the bytes of their names.
"""

import json
import math
import struct
from collections.abc import Callable
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import CorruptFileError, InvalidArgumentError, UnsupportedError

_ARRAY, _OBJECT, _SCALAR = 0x8000_0000, 0x4000_0000, 0x2000_0000
_HEADER_MASK, _COUNT_MASK = 0xE000_0000, 0x1FFF_FFFF
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = (kind << 28 for kind in range(6))
_TYPE_MASK, _LENGTH_MASK = 0x7000_0000, 0x0FFF_FFFF

_ZERO, _NAN, _INFINITY, _NEGATIVE_INFINITY, _INT, _UINT, _FLOAT = (kind << 4 for kind in range(7))

_WORD = struct.Struct(">I")
_DOUBLE = struct.Struct(">d")
_INTS = {1: struct.Struct(">b"), 2: struct.Struct(">h"), 4: struct.Struct(">i"), 8: struct.Struct(">q")}
_UINTS = {1: struct.Struct(">B"), 2: struct.Struct(">H"), 4: struct.Struct(">I"), 8: struct.Struct(">Q")}

# Deeper than any document that is meant: a crafted one must not reach Python's recursion limit.
_MAX_DEPTH = 200

# Numbers that JSON has not a string for. As text they become again what they were.
_NAN_TEXT, _INFINITY_TEXT, _NEGATIVE_INFINITY_TEXT = "NaN", "1e999", "-1e999"


def decode_jsonb(array: pa.Array, hidden: pa.BooleanArray | None = None) -> pa.Array:
    """Return documents as JSON text.

    Args:
        array: Binary of any kind.
        hidden: Which of them stand in a struct that is null, so that writers may have left them empty; such
            become empty text. None when none does.

    Returns:
        Strings without white space between tokens; numbers have the shortest form that means the same.

    Raises:
        CorruptFileError: A document is damaged.
        UnsupportedError: It has a kind of value that JSON does not have.
    """
    if hidden is None:
        return _convert(array, pa.string(), jsonb_to_text)
    visible = pc.if_else(hidden, pa.scalar(None, array.type), array)
    return pc.if_else(pc.and_(hidden, array.is_valid()), "", _convert(visible, pa.string(), jsonb_to_text))


def encode_jsonb(array: pa.Array) -> pa.Array:
    """JSON text as documents.

    Args:
        array: Strings of any kind.

    Raises:
        InvalidArgumentError: A string is no JSON, or an object has two members of one name.
    """
    return _convert(array, pa.large_binary(), text_to_jsonb)


def _convert(array: pa.Array, data_type: pa.DataType, convert: Callable[[bytes], bytes | str]) -> pa.Array:
    values = array.cast(pa.large_binary()).to_pylist()
    return pa.array([None if value is None else convert(value) for value in values], data_type)


def jsonb_to_text(document: bytes) -> str:
    """Return the JSON text of a document; see `decode_jsonb`."""
    parts: list[str] = []
    try:
        _show_document(document, 0, len(document), parts, 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CorruptFileError(f"a JSON document is damaged: {error}") from error
    return "".join(parts)


def text_to_jsonb(text: bytes) -> bytes:
    """Return the document of a JSON text; see `encode_jsonb`."""
    try:
        value = _DECODER.decode(text.decode())
        return _encode_document(value, 0)
    except (ValueError, RecursionError, struct.error) as error:
        raise InvalidArgumentError(f"a value is not JSON: {error}") from error


def _show_document(data: bytes, start: int, stop: int, parts: list[str], depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise CorruptFileError(f"a JSON document is nested deeper than {_MAX_DEPTH} levels")
    (header,) = _WORD.unpack_from(data, start)
    kind, count = header & _HEADER_MASK, header & _COUNT_MASK
    words = {_ARRAY: count, _OBJECT: 2 * count, _SCALAR: 1}.get(kind)
    body = start + 4 + 4 * (words or 0)
    if words is None or body > stop:
        raise CorruptFileError("a JSON document is damaged: its header cannot be")
    entries = struct.unpack_from(f">{words}I", data, start + 4)
    if kind != _OBJECT:
        if kind == _ARRAY:
            parts.append("[")
        for number, entry in enumerate(entries):
            if number:
                parts.append(",")
            body = _show_value(data, entry, body, stop, parts, depth)
        if kind == _ARRAY:
            parts.append("]")
        return
    names = []
    for entry in entries[:count]:
        end = body + (entry & _LENGTH_MASK)
        if entry & _TYPE_MASK != _STRING or end > stop:
            raise CorruptFileError("a JSON document is damaged: the name of a member cannot be")
        names.append(_quote(data[body:end].decode()))
        body = end
    for number, (name, entry) in enumerate(zip(names, entries[count:], strict=True)):
        parts.append(f",{name}:" if number else f"{{{name}:")
        body = _show_value(data, entry, body, stop, parts, depth)
    parts.append("}" if count else "{}")


def _show_value(data: bytes, entry: int, start: int, stop: int, parts: list[str], depth: int) -> int:
    """Append the text of a value, and return where it ends."""
    end = start + (entry & _LENGTH_MASK)
    if end > stop:
        raise CorruptFileError("a JSON document is damaged: a value reaches beyond it")
    kind = entry & _TYPE_MASK
    if kind == _STRING:
        parts.append(_quote(data[start:end].decode()))
    elif kind == _NUMBER:
        parts.append(_show_number(data, start, end))
    elif kind == _CONTAINER:
        _show_document(data, start, end, parts, depth + 1)
    elif kind in _CONSTANTS:
        parts.append(_CONSTANTS[kind])
    else:
        raise UnsupportedError(f"JSON values of kind {kind >> 28} are not supported")
    return end


def _show_number(data: bytes, start: int, end: int) -> str:
    kind, size = data[start], end - start - 1
    if kind in _SPECIAL_NUMBERS and size == 0:
        return _SPECIAL_NUMBERS[kind]
    if kind == _FLOAT and size == _DOUBLE.size:
        return _show_float(_DOUBLE.unpack_from(data, start + 1)[0])
    widths = {_INT: _INTS, _UINT: _UINTS}.get(kind)
    if widths is None or size not in widths:
        raise UnsupportedError(f"JSON numbers of kind {kind:#x} in {size} bytes are not supported")
    return str(widths[size].unpack_from(data, start + 1)[0])


def number_text(value: float) -> str:
    """Return a finite number in the shortest form that means the same."""
    return str(value) if isinstance(value, int) else _show_float(value)


def _show_float(value: float) -> str:
    if not math.isfinite(value):
        return _NAN_TEXT if math.isnan(value) else _INFINITY_TEXT if value > 0 else _NEGATIVE_INFINITY_TEXT
    text = repr(value)
    digits, mark, exponent = text.partition("e")
    if not mark:
        return text
    if exponent == "-05":
        sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{digits}e{exponent[0]}{exponent[1:].lstrip('0')}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _encode_document(value: object, depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, dict):
        members = sorted((name.encode(), member) for name, member in value.items())
        encoded = [_encode_value(member, depth) for _, member in members]
        names = [(_STRING, name) for name, _ in members]
        return _assemble(_OBJECT | len(members), [*names, *encoded])
    if isinstance(value, list):
        return _assemble(_ARRAY | len(value), [_encode_value(item, depth) for item in value])
    return _assemble(_SCALAR, [_encode_value(value, depth)])


def _assemble(header: int, elements: list[tuple[int, bytes]]) -> bytes:
    if len(elements) > _COUNT_MASK or any(len(body) > _LENGTH_MASK for _, body in elements):
        raise ValueError("too long")
    words = chain([header], (kind | len(body) for kind, body in elements))
    return struct.pack(f">{len(elements) + 1}I", *words) + b"".join(body for _, body in elements)


def _encode_value(value: object, depth: int) -> tuple[int, bytes]:
    if value is None:
        return _NULL, b""
    if isinstance(value, bool):
        return _TRUE if value else _FALSE, b""
    if isinstance(value, str):
        return _STRING, value.encode()
    if isinstance(value, int | float):
        return _NUMBER, _encode_number(value)
    return _CONTAINER, _encode_document(value, depth + 1)


def _encode_number(value: float) -> bytes:
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
        if value == 0:
            return bytes([_ZERO])
        kind, widths = (_INT, _INTS) if value < 0 else (_UINT, _UINTS)
        bits = (~value if value < 0 else value).bit_length() + (value < 0)
        size = next(size for size in widths if bits <= size * 8)
        return bytes([kind]) + widths[size].pack(value)
    number = _to_float(value)
    if math.isfinite(number):
        return bytes([_FLOAT]) + _DOUBLE.pack(number)
    return bytes([_NAN if math.isnan(number) else _INFINITY if number > 0 else _NEGATIVE_INFINITY])


def _to_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has two members of one name")
    return members


_CONSTANTS = {_NULL: "null", _FALSE: "false", _TRUE: "true"}
_SPECIAL_NUMBERS = {
    _ZERO: "0",
    _NAN: _NAN_TEXT,
    _INFINITY: _INFINITY_TEXT,
    _NEGATIVE_INFINITY: _NEGATIVE_INFINITY_TEXT,
}
# Control characters within strings are let through, as writers of logs like to leave them there.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique_members, strict=False)
