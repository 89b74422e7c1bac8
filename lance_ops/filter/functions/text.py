"""Functions of text. Positions and lengths count characters (code points), starting at 1."""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Expression
from lance_ops.filter.functions.cases import initcap, lower_case, upper_case
from lance_ops.filter.functions.letters import words_of
from lance_ops.filter.functions.signature import (
    TRUTH,
    Datum,
    FunctionSpec,
    Result,
    always,
    as_array,
    by_value,
    like_first,
)
from lance_ops.filter.types.coercion import INT64, UTF8

_MAX_TEXT = 1 << 24
"""Characters that one call may make out of one value: repeat(s, 1000000000) must not eat the memory."""


def _count(arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    """Return lengths are 32-bit numbers for strings with 32-bit offsets."""
    del arguments
    return INT64 if pat.is_large_string(targets[0]) else pa.int32()


def _joined(_arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    return pa.large_utf8() if pa.large_utf8() in targets else UTF8


def _narrowest(_arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    """Large only where all are, as in pylance."""
    return pa.large_utf8() if all(pat.is_large_string(target) for target in targets) else UTF8


def _limited(length: int) -> int:
    if length > _MAX_TEXT:
        raise PredicateError(f"a string of {length} characters exceeds the maximum of {_MAX_TEXT}")
    return length


def _substr(text: str, start: int, length: int | None = None) -> str:
    if length is not None and length < 0:
        raise PredicateError(f"substr() was given the negative length {length}")
    first = start - 1
    end = None if length is None else max(first + length, 0)
    return text[max(first, 0) : end]


def _substr_vector(texts: pa.Array, start: int, length: int | None = None) -> pa.Array:
    if length is not None and length < 0:
        raise PredicateError(f"substr() was given the negative length {length}")
    first = start - 1
    end = None if length is None else max(first + length, 0)
    return pc.utf8_slice_codeunits(texts, max(first, 0), end)


def _left(text: str, count: int) -> str:
    return text[:count]


def _right(text: str, count: int) -> str:
    return text[-count:] if count > 0 else text[-count or len(text) :]


def _left_vector(texts: pa.Array, count: int) -> pa.Array:
    return pc.utf8_slice_codeunits(texts, 0, count)


def _strpos(text: str, part: str) -> int:
    return text.find(part) + 1


def _strpos_vector(texts: pa.Array, part: str) -> pa.Array:
    if not part:
        return pc.if_else(pc.is_valid(texts), 1, pa.scalar(None, INT64))
    # Arrow returns a byte position; the length of the prefix counts characters.
    before = pc.list_element(pc.split_pattern(texts, part, max_splits=1), 0)
    length = pc.utf8_length(before)
    return pc.if_else(pc.match_substring(texts, part), pc.add(length, 1), 0)


def _replace_vector(texts: pa.Array, part: str, by: str) -> pa.Array:
    if not part:
        return by_value(str.replace)(texts, pa.scalar(part), pa.scalar(by))
    return pc.replace_substring(texts, part, by)


def _lpad(text: str, length: int, fill: str = " ") -> str:
    missing = _limited(length) - len(text)
    if missing <= 0 or not fill:
        return text[: max(length, 0)]
    return (fill * (missing // len(fill) + 1))[:missing] + text


def _rpad(text: str, length: int, fill: str = " ") -> str:
    missing = _limited(length) - len(text)
    if missing <= 0 or not fill:
        return text[: max(length, 0)]
    return text + (fill * (missing // len(fill) + 1))[:missing]


def _repeat(text: str, count: int) -> str:
    _limited(len(text) * max(count, 0))
    return text * count


def _split_part(text: str, separator: str, number: int) -> str:
    if number == 0:
        raise PredicateError("split_part() counts parts from 1, or from -1 at the end")
    parts = text.split(separator) if separator else [text]
    index = number - 1 if number > 0 else number
    return parts[index] if -len(parts) <= index < len(parts) else ""


def _translate(text: str, letters: str, by: str) -> str:
    table: dict[int, str | None] = {}
    for index, letter in enumerate(letters):
        table.setdefault(ord(letter), by[index] if index < len(by) else None)
    return text.translate(table)


def _contains_tokens(text: str, tokens: str) -> bool:
    return set(words_of(tokens)) <= set(words_of(text))


def _character(code: int) -> str:
    if not 0 < code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise PredicateError(f"chr() expects a valid code point, got {code}")
    return chr(code)


# --- joining


def _concat(*parts: Datum) -> Datum:
    return pc.binary_join_element_wise(*_same_text(parts), _separator(parts, ""), null_handling="replace")


def _concat_operator(*parts: Datum) -> Datum:
    return pc.binary_join_element_wise(*_same_text(parts), _separator(parts, ""))


def _concat_ws(separator: Datum, *parts: Datum) -> Datum:
    """Join what is not null; Arrow's own way to skip nulls mixes up rows (seen in version 26)."""
    *texts, between = _same_text((*parts, separator))
    joined: Datum = pa.scalar(None, between.type)
    for text in texts:
        both = pc.binary_join_element_wise(joined, text, between)
        joined = pc.coalesce(both, joined, text)
    return pc.if_else(pc.is_valid(between), pc.fill_null(joined, ""), pa.scalar(None, between.type))


def _same_text(parts: Sequence[Datum]) -> list[Datum]:
    target = pa.large_utf8() if any(pat.is_large_string(part.type) for part in parts) else UTF8
    return [part.cast(target) for part in parts]


def _separator(parts: Sequence[Datum], text: str) -> pa.Scalar:
    return pa.scalar(text, _same_text(parts)[0].type)


# --- patterns


def _with_flags(pattern: str, flags: str) -> str:
    unknown = set(flags) - set("ims")
    if unknown:
        raise PredicateError(f"the regular expression flag {min(unknown)!r} is not known; use i, m and s")
    return f"(?{flags}){pattern}" if flags else pattern


def _regexp_like_vector(texts: pa.Array, pattern: str, flags: str = "") -> pa.Array:
    return pc.match_substring_regex(texts, _with_flags(pattern, flags))


def _regexp_count_vector(texts: pa.Array, pattern: str) -> pa.Array:
    # Pylance counts no match in what is not there.
    return pc.fill_null(pc.count_substring_regex(texts, pattern), 0)


def _regexp_replace_vector(texts: pa.Array, pattern: str, by: str, flags: str = "") -> pa.Array:
    template = re.sub(r"\$(?:\{(\d+)\}|(\d+))", lambda match: f"\\{match.group(1) or match.group(2)}", by)
    return pc.replace_substring_regex(
        texts,
        _with_flags(pattern, flags.replace("g", "")),
        template,
        max_replacements=None if "g" in flags else 1,
    )


def _constants_only(name: str) -> Any:
    def row(*_values: Any) -> Any:
        raise PredicateError(f"{name}() takes only constants besides its first argument")

    return row


def match_like(texts: Datum, pattern: Datum, *, ignore_case: bool) -> Datum:
    """LIKE, with the backslash for its escape character."""
    if isinstance(pattern, pa.Scalar):
        return _match_pattern(texts, pattern.as_py(), ignore_case)
    texts = as_array(texts, len(pattern))
    # Arrow supports one pattern per call: rows are grouped by pattern, then reordered.
    encoded = pattern.dictionary_encode()
    order = pc.sort_indices(encoded.indices)
    codes, sorted_texts = encoded.indices.take(order), texts.take(order)
    lengths = pc.value_counts(codes).field("counts").to_pylist()
    parts, start = [], 0
    for code, length in zip(codes.unique().to_pylist(), lengths, strict=True):
        form = None if code is None else encoded.dictionary[code].as_py()
        parts.append(_match_pattern(sorted_texts.slice(start, length), form, ignore_case))
        start += length
    matched = pa.concat_arrays(parts) if parts else pa.nulls(0, pa.bool_())
    return matched.take(pc.sort_indices(order))


def _match_pattern(texts: pa.Array, pattern: str | None, ignore_case: bool) -> pa.Array:
    if pattern is None:
        return pa.nulls(len(texts), pa.bool_())
    if "\\" not in pattern:
        return pc.match_like(texts, pattern, ignore_case=ignore_case)
    # Arrow mistakes an escaped character for two where a pattern has one % at its end or start (version 26).
    return pc.match_substring_regex(texts, _like_regex(pattern), ignore_case=ignore_case)


def _like_regex(pattern: str) -> str:
    """Return the regular expression of a LIKE pattern; a trailing backslash is literal."""
    parts, letters = [], iter(pattern)
    for letter in letters:
        if letter == "\\":
            parts.append(re.escape(next(letters, letter)))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter) or re.escape(letter))
    return f"^(?s:{''.join(parts)})$"


# --- the table


def _trim(vector: Any, row: Any) -> Any:
    return by_value(
        lambda text, letters=" ": row(text, letters),
        lambda texts, letters=" ": vector(texts, characters=letters) if letters else texts,
    )


def _spec(
    name: str, kinds: tuple[str, ...], result: Result, kernel: Any, *, can_fail: bool = False
) -> FunctionSpec:
    return FunctionSpec(name, kinds, result, kernel, can_fail)


TEXT_FUNCTIONS = (
    _spec("lower", ("text",), like_first, lower_case),
    _spec("upper", ("text",), like_first, upper_case),
    _spec("length", ("printable",), _count, pc.utf8_length),
    _spec("octet_length", ("text",), _count, pc.binary_length),
    _spec("bit_length", ("text",), _count, lambda texts: pc.multiply(pc.binary_length(texts), 8)),
    _spec("btrim", ("text", "text?"), like_first, _trim(pc.utf8_trim, str.strip)),
    _spec("ltrim", ("text", "text?"), like_first, _trim(pc.utf8_ltrim, str.lstrip)),
    _spec("rtrim", ("text", "text?"), like_first, _trim(pc.utf8_rtrim, str.rstrip)),
    _spec("substr", ("text", "int", "int?"), like_first, by_value(_substr, _substr_vector), can_fail=True),
    _spec("left", ("text", "int"), always(UTF8), by_value(_left, _left_vector)),
    _spec("right", ("text", "int"), like_first, by_value(_right)),
    _spec("starts_with", ("text", "text"), TRUTH, by_value(str.startswith, pc.starts_with)),
    _spec("ends_with", ("text", "text"), TRUTH, by_value(str.endswith, pc.ends_with)),
    _spec("contains", ("text", "text"), TRUTH, by_value(lambda text, part: part in text, pc.match_substring)),
    _spec("contains_tokens", ("text", "text"), TRUTH, by_value(_contains_tokens)),
    _spec("strpos", ("text", "text"), _count, by_value(_strpos, _strpos_vector)),
    _spec("replace", ("text", "text", "text"), like_first, by_value(str.replace, _replace_vector)),
    _spec("reverse", ("text",), like_first, pc.utf8_reverse),
    _spec("lpad", ("text", "int", "text?"), like_first, by_value(_lpad), can_fail=True),
    _spec("rpad", ("text", "int", "text?"), like_first, by_value(_rpad), can_fail=True),
    _spec("repeat", ("text", "int"), like_first, by_value(_repeat), can_fail=True),
    _spec("initcap", ("text",), like_first, by_value(initcap)),
    _spec("ascii", ("text",), always(pa.int32()), by_value(lambda text: ord(text[0]) if text else 0)),
    _spec("chr", ("int",), always(UTF8), by_value(_character), can_fail=True),
    _spec("split_part", ("text", "text", "int"), like_first, by_value(_split_part), can_fail=True),
    _spec("translate", ("text", "text", "text"), like_first, by_value(_translate)),
    _spec("concat", ("printable", "printable*"), _narrowest, _concat),
    _spec("concat_ws", ("text", "printable*"), _joined, _concat_ws),
    _spec("||", ("printable", "printable"), _joined, _concat_operator),
    _spec(
        "regexp_like",
        ("text", "text", "text?"),
        TRUTH,
        by_value(_constants_only("regexp_like"), _regexp_like_vector),
    ),
    _spec(
        "regexp_count",
        ("text", "text"),
        always(INT64),
        by_value(_constants_only("regexp_count"), _regexp_count_vector),
    ),
    _spec(
        "regexp_replace",
        ("text", "text", "text", "text?"),
        always(UTF8),
        by_value(_constants_only("regexp_replace"), _regexp_replace_vector),
    ),
)
