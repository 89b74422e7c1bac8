"""JSON files: an object in each line, an array of objects, or objects one after the other.

A first pass over the whole file infers the columns and their types, since objects may lack fields; the second
one parses the rows as these types, or as those that the caller or the dataset states.
"""

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson
import pyarrow.types as pt

from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.maintenance.sources.csv_checks import not_utf8
from lance_ops.maintenance.sources.json_records import objects_of, read_objects
from lance_ops.maintenance.sources.merged_types import merge_types
from lance_ops.maintenance.sources.read_options import ReadOptions
from lance_ops.maintenance.sources.text_blocks import TextBlock

_ROWS = 65_536
_EXACT = float(1 << 53)
_TWICE = re.compile(r"Column\(/(.*)\) was specified twice")
_ROW = re.compile(r" in row (\d+)$")
_CHANGED = re.compile(r"Column\(/?(.*)\) changed from (\w+) to (\w+)")
_ABOUT_VALUE = re.compile(r"couldn't parse:(.*)$", re.DOTALL)
_DATE = r"^\d{4}-\d{2}-\d{2}$"
_NAIVE = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?$"
_ZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:?\d{2})$"
_SUB_MICROSECOND = r"\.\d{7,9}(Z|[+-]\d{2}:?\d{2})?$"


@dataclass(frozen=True, slots=True)
class JsonFile:
    """One JSON file.

    Attributes:
        path: A path or URI.
        options: Options of the caller.
        stated: Types of columns that the caller or the dataset states.
    """

    path: str
    options: ReadOptions
    stated: Mapping[str, pa.DataType] = field(default_factory=dict)

    def read_schema(self) -> pa.Schema:
        """Return columns and types; reads the whole file. There are none without objects.

        A stated type is taken where JSON can express it; else the inferred one is returned.

        Raises:
            InvalidArgumentError: It is not JSON, or a column has values of different kinds; names the line.
        """
        types: dict[str, pa.DataType] = {}
        for block in self._blocks():
            for item in self._inferred(block):
                known = types.get(item.name, pa.null())
                merged = merge_types(known, item.type)
                if merged is None:
                    raise self._differs(item.name, known, item.type, block)
                types[item.name] = merged
        return pa.schema(
            [
                (name, _stated_type(kind, self.stated[name]) if name in self.stated else kind)
                for name, kind in types.items()
            ]
        )

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Args:
            schema: All columns of the file, and possibly others, which are null.

        Raises:
            InvalidArgumentError: A value does not fit its type; names the line.
        """
        parsed = pa.schema([(item.name, _parsed_type(item.type)) for item in schema])
        inferred = [item.name for item in schema if item.name not in self.stated]
        for block in self._blocks():
            table = self._parsed(block, parsed)
            for name in inferred:
                for column_path in _large_doubles(table[name], (name,)):
                    self._check_exact(block, column_path)
            columns = [self._cast(table[item.name], item, block) for item in schema]
            yield from pa.table(columns, schema=schema).to_batches(_ROWS)

    def _blocks(self) -> Iterator[TextBlock]:
        for block in read_objects(self.path, self.options.encoding):
            if not block.data.strip():
                continue
            if not block.data.isascii():
                # Arrow would take any bytes for the text of strings.
                try:
                    codecs.utf_8_decode(block.data, "strict", True)
                except UnicodeDecodeError as error:
                    raise not_utf8(self.path, "a text") from error
            yield block

    def _inferred(self, block: TextBlock) -> pa.Schema:
        first = self._parsed(block, None)
        strings = pa.schema([item.with_type(_as_strings(item.type)) for item in first.schema])
        table = first if strings == first.schema else self._parsed(block, strings)
        kinds = []
        for item in strings:
            kind = _inferred_type(table[item.name])
            for column_path in _large_doubles(table[item.name], (item.name,)):
                if column_path == (item.name,) and self._are_uint64(block, item.name):
                    kind = pa.uint64()
            kinds.append((item.name, kind))
        return pa.schema(kinds)

    def _parsed(self, block: TextBlock, schema: pa.Schema | None) -> pa.Table:
        """Parse a block; without a schema, as Arrow infers it."""
        read = pajson.ReadOptions(use_threads=False, block_size=len(block.data) + 1)
        parse = pajson.ParseOptions(
            explicit_schema=schema,
            newlines_in_values=True,
            unexpected_field_behavior="infer" if schema is None else "error",
        )
        try:
            return pajson.read_json(pa.BufferReader(block.data), read, parse)
        except pa.ArrowInvalid as error:
            raise self._invalid(block, str(error), schema) from error

    def _cast(self, column: pa.ChunkedArray, item: pa.Field, block: TextBlock) -> pa.ChunkedArray:
        if column.type == item.type:
            return column
        try:
            return _converted(column, item.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            line = self._line_where(block, lambda row: _unfit(row.get(item.name), column.type, item.type))
            raise InvalidArgumentError(
                f"line {line}: a value of column {item.name!r} does not fit {item.type}: {error}",
                path=self.path,
                field=item.name,
            ) from error

    def _check_exact(self, block: TextBlock, column_path: tuple[str, ...]) -> None:
        for offset, row in _rows(block):
            for value in _values(row, column_path):
                if isinstance(value, int) and int(float(value)) != value:
                    name = ".".join(column_path)
                    raise InvalidArgumentError(
                        f"line {block.line_at(offset)}: column {name!r} would be read as doubles, which "
                        f"cannot represent {value}: the nearest is {int(float(value))}",
                        path=self.path,
                        field=column_path[0],
                        hint="state a type that holds it, such as decimal128(38, 0), by column_types "
                        "(--column-type)",
                    )

    def _are_uint64(self, block: TextBlock, name: str) -> bool:
        values = [value for _, row in _rows(block) for value in _values(row, (name,)) if value is not None]
        return all(isinstance(value, int) and 0 <= value < 1 << 64 for value in values)

    def _differs(
        self, name: str, known: pa.DataType, kind: pa.DataType, block: TextBlock
    ) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"the lines of the file differ: column {name!r} is {known} before line {block.line} and "
            f"{kind} after it",
            path=self.path,
            field=name,
            hint="correct the values of one of them",
        )

    def _invalid(self, block: TextBlock, text: str, schema: pa.Schema | None) -> Exception:
        """Return the error of a block, with the line."""
        text = text.removeprefix("JSON parse error: ")
        row = _ROW.search(text)
        changed, value = _CHANGED.search(text), _ABOUT_VALUE.search(text)
        line = block.line if row is None else self._line_of(block, int(row[1]))
        if changed is not None and not changed[1]:
            return InvalidArgumentError(
                f"line {self._line_of_other(block)} has {_with_article(changed[3])} instead of an object",
                path=self.path,
                hint="JSON input is an object in each line, or an array of objects",
            )
        if changed is not None:
            name = changed[1].replace("/", ".").removesuffix(".[]")
            return InvalidArgumentError(
                f"the lines of the file differ: column {name!r} is {changed[3]} in line {line}, and "
                f"{changed[2]} before or as its type",
                path=self.path,
                field=changed[1].partition("/")[0],
                hint="give all values of a column one type, or null",
            )
        if value is not None and schema is not None:
            found = self._line_where(block, lambda item: value[1] in json.dumps(item))
            return InvalidArgumentError(f"line {found}: {text}", path=self.path)
        if "unexpected field" in text:
            return SchemaMismatchError("a line has fields that no earlier line has", [text], path=self.path)
        twice = _TWICE.search(text)
        if twice is not None:
            name = twice[1].replace("/", ".")
            return InvalidArgumentError(
                f"line {line}: an object has the column {name!r} twice",
                path=self.path,
                field=twice[1].partition("/")[0],
                hint="remove one of them",
            )
        broken = self._line_broken(block)
        line = line if broken is None else broken
        last = block.line + block.data.rstrip().count(b"\n")
        what = "the file may end early: " if line == last and broken is not None else ""
        return InvalidArgumentError(
            f"{what}line {line} is not JSON: {_ROW.sub('', text)}",
            path=self.path,
            hint="JSON input is an object in each line, or an array of objects",
        )

    def _line_of(self, block: TextBlock, row: int) -> int:
        for number, (offset, _) in enumerate(objects_of(block)):
            if number == row:
                return block.line_at(offset)
        return block.line

    def _line_of_other(self, block: TextBlock) -> int:
        """Return the line of the first value that is no object."""
        text = bytearray(block.data)
        for offset, one in objects_of(block):
            text[offset : offset + len(one.encode())] = b" " * len(one.encode())
        rest = bytes(text)
        return block.line_at(len(rest) - len(rest.lstrip()))

    def _line_where(self, block: TextBlock, matches: Any) -> int:
        for offset, row in _rows(block):
            if isinstance(row, dict) and matches(row):
                return block.line_at(offset)
        return block.line

    def _line_broken(self, block: TextBlock) -> int | None:
        """Return the first line that is not JSON, in text with an object in each line; None without one."""
        for number, line in enumerate(block.data.split(b"\n"), start=block.line):
            if line.strip():
                try:
                    json.loads(line)
                except ValueError:
                    return number
        return None


def _with_article(kind: str) -> str:
    return kind if kind == "null" else f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


def _rows(block: TextBlock) -> Iterator[tuple[int, Any]]:
    for offset, text in objects_of(block):
        try:
            yield offset, json.loads(text)
        except ValueError:
            continue


def _values(item: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values below a path of names, through lists."""
    if isinstance(item, list):
        for one in item:
            yield from _values(one, path)
    elif not path:
        yield item
    elif isinstance(item, dict):
        yield from _values(item.get(path[0]), path[1:])


def _large_doubles(column: pa.ChunkedArray, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of doubles from 2^53 on, which may not be exact."""
    kind = column.type
    if pt.is_floating(kind):
        greatest = pc.max(pc.abs(column)).as_py()
        if greatest is not None and greatest >= _EXACT:
            yield path
    elif pt.is_list(kind) and _has_doubles(kind.value_type):
        yield from _large_doubles(pc.list_flatten(column), path)
    elif pt.is_struct(kind):
        for position, item in enumerate(kind):
            if _has_doubles(item.type):
                yield from _large_doubles(pc.struct_field(column, [position]), (*path, item.name))


def _has_doubles(kind: pa.DataType) -> bool:
    return bool(pt.is_floating(kind)) or any(
        _has_doubles(kind.field(number).type) for number in range(kind.num_fields)
    )


def _as_strings(kind: pa.DataType) -> pa.DataType:
    """Return the type with strings for timestamps, of which Arrow's inference drops zone and fraction."""
    if pt.is_timestamp(kind):
        return pa.string()
    if pt.is_list(kind):
        return pa.list_(_as_strings(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([item.with_type(_as_strings(item.type)) for item in kind])
    return kind


def _inferred_type(column: pa.ChunkedArray) -> pa.DataType:
    """Return the type of a column; strings that are all dates or all timestamps have their types."""
    kind = column.type
    if pt.is_struct(kind):
        return pa.struct(
            [
                (item.name, _inferred_type(pc.struct_field(column, [position])))
                for position, item in enumerate(kind)
            ]
        )
    if not pt.is_string(kind):
        return kind
    values = column.drop_null()
    if not len(values):
        return kind
    found = _time_type(values)
    if found is None:
        return kind
    try:
        values.cast(found)
    except pa.ArrowInvalid:
        # The thirtieth of February.
        return kind
    return found


def _time_type(values: pa.ChunkedArray) -> pa.DataType | None:
    first = values.slice(0, 1)
    for pattern, zone in ((_DATE, None), (_NAIVE, None), (_ZONED, "UTC")):
        if not pc.all(pc.match_substring_regex(first, pattern)).as_py():
            continue
        if not pc.all(pc.match_substring_regex(values, pattern)).as_py():
            return None
        if pattern == _DATE:
            return pa.date32()
        fine = pc.any(pc.match_substring_regex(values, _SUB_MICROSECOND)).as_py()
        return pa.timestamp("ns" if fine else "us", zone)
    return None


def _stated_type(found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the stated type of a column where JSON can express it, else the inferred type."""
    if pt.is_null(found) or found == wanted:
        return wanted
    if isinstance(wanted, pa.BaseExtensionType):
        inner = _stated_type(found, wanted.storage_type)
        return wanted if inner == wanted.storage_type else found
    if pt.is_dictionary(wanted):
        return wanted if _stated_type(found, wanted.value_type) == wanted.value_type else found
    if pt.is_struct(found) and pt.is_struct(wanted):
        given = {item.name: item.type for item in found}
        kept = [item.with_type(_stated_type(given.pop(item.name, pa.null()), item.type)) for item in wanted]
        return pa.struct([*kept, *(pa.field(name, kind) for name, kind in given.items())])
    if pt.is_struct(found) and pt.is_map(wanted):
        return found
    is_list = pt.is_list(wanted) or pt.is_large_list(wanted) or pt.is_fixed_size_list(wanted)
    if pt.is_list(found) and is_list:
        inner = _stated_type(found.value_type, wanted.value_type)
        return wanted if inner == wanted.value_type else found
    is_text = pt.is_string(found) or pt.is_timestamp(found) or pt.is_date(found)
    fits = (
        (is_text and _is_written_as_text(wanted))
        or (
            pt.is_integer(found)
            and (pt.is_integer(wanted) or pt.is_floating(wanted) or pt.is_decimal(wanted))
        )
        or (pt.is_floating(found) and (pt.is_floating(wanted) or pt.is_decimal(wanted)))
        or (pt.is_integer(found) and pt.is_duration(wanted))
    )
    return wanted if fits else found


def _is_written_as_text(kind: pa.DataType) -> bool:
    return bool(
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_timestamp(kind)
        or pt.is_date(kind)
        or pt.is_time(kind)
        or pt.is_decimal(kind)
    )


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    """Return the type as which Arrow parses values before they are cast."""
    if isinstance(kind, pa.BaseExtensionType):
        return _parsed_type(kind.storage_type)
    if pt.is_dictionary(kind):
        return _parsed_type(kind.value_type)
    if pt.is_date(kind) or pt.is_time(kind) or pt.is_timestamp(kind):
        return pa.string()
    if pt.is_duration(kind):
        return pa.int64()
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return pa.list_(_parsed_type(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([item.with_type(_parsed_type(item.type)).with_nullable(True) for item in kind])
    return kind


def _converted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if isinstance(kind, pa.BaseExtensionType):
        storage = _converted(column, kind.storage_type)
        return pa.chunked_array(
            [pa.ExtensionArray.from_storage(kind, chunk) for chunk in storage.chunks], kind
        )
    return pa.chunked_array([_converted_array(chunk, kind) for chunk in column.chunks], kind)


def _converted_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array; members of structs by their names."""
    if array.type == kind:
        return array
    if pt.is_struct(kind):
        children = [
            _converted_array(array.field(array.type.get_field_index(item.name)), item.type) for item in kind
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pt.is_time(kind) and pt.is_string(array.type):
        # Arrow parses times of day in timestamps only.
        stamps = pc.binary_join_element_wise("1970-01-01", array, "T")
        return stamps.cast(pa.timestamp("ns" if kind == pa.time64("ns") else "us")).cast(kind)
    return array.cast(kind)


def _unfit(value: Any, parsed: pa.DataType, kind: pa.DataType) -> bool:
    try:
        _converted(pa.chunked_array([pa.array([value], parsed)]), kind)
    except (pa.ArrowException, TypeError, ValueError):
        return True
    return False
