"""CSV files: CSV and TSV in blocks of whole records, each parsed by Arrow in memory.

Types are inferred from the first block, and from later ones for columns without a value so far. All rows are
parsed as these types, or as those that the caller or the dataset states.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.types as pt

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.sources.csv_checks import (
    check_doubles,
    check_inferred,
    has_large_doubles,
    is_about_utf8,
    is_utf16,
    not_utf8,
    separator_hint,
)
from lance_ops.maintenance.sources.read_options import ReadOptions
from lance_ops.maintenance.sources.text_blocks import FIRST_BYTES, TextBlock, read_blocks

_ROWS = 65_536
_PARSED_AT_ONCE = 1 << 20
# Blocks in which columns without values so far are looked for.
_INFERRED_BLOCKS = 16
_CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+): invalid value '(.*)'", re.DOTALL
)
_COUNT = re.compile(r"Expected (\d+) columns, got (\d+)")
_TIME_OF_DAY = re.compile(r"%[HIMSTRfpXc]")


@dataclass(frozen=True, slots=True)
class CsvFile:
    """One CSV or TSV file.

    Attributes:
        path: A path or URI.
        options: Options of the caller.
        delimiter: Between columns.
        stated: Types of columns that are not inferred.
    """

    path: str
    options: ReadOptions
    delimiter: str
    stated: Mapping[str, pa.DataType] = field(default_factory=dict)

    def read_schema(self) -> pa.Schema:
        """Return columns and types; reads the first block, or more for columns without values.

        Raises:
            InvalidArgumentError: It is no such file, or inference would lose values; see `check_inferred`.
        """
        with self._errors():
            blocks = self._blocks()
            first = next(blocks, None)
            if first is None or not first.data.strip():
                raise InvalidArgumentError(
                    "the file is empty: it has no header",
                    path=self.path,
                    hint="remove the file from the input",
                )
            schema = self._inferred(first)
            self._check_names(schema.names)
            texts = self._texts(first, self.options.column_names, _numeric(schema, self.stated))
            schema = check_inferred(self.path, self.delimiter, schema, texts, stated=self.stated)
            return self._without_nulls(schema, blocks)

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Args:
            schema: Types of the columns, by name; the result of `read_schema`, or its types merged with those
                of other files.

        Raises:
            InvalidArgumentError: A value does not fit, or the lines differ in their columns; names the line.
        """
        names, row = self.options.column_names, 0
        types = {item.name: item.type for item in schema}
        inferred = [
            item.name for item in schema if pt.is_floating(item.type) and item.name not in self.stated
        ]
        with self._errors():
            for block in self._blocks():
                table = self._parsed(block, names, types)
                large = has_large_doubles(table, inferred)
                if large:
                    check_doubles(self.path, self._texts(block, names, large), row)
                names = table.column_names if names is None else names
                row += table.num_rows
                yield from table.to_batches(_ROWS)

    def _check_names(self, names: list[str]) -> None:
        if "" in names:
            is_last = names.index("") == len(names) - 1
            raise InvalidArgumentError(
                f"column {names.index('') + 1} of the header has no name",
                path=self.path,
                hint="remove the delimiter at the end of the lines, or name the column"
                if is_last and len(names) > 1
                else "name it; pandas writes an index so, unless to_csv has index=False",
            )

    def _inferred(self, block: TextBlock) -> pa.Schema:
        """Return the schema of a block; times of a format without a time of day are dates."""
        schema = self._parsed(block, self.options.column_names, self.stated).schema
        form = self.options.timestamp_format
        if form is None or _TIME_OF_DAY.search(form):
            return schema
        return pa.schema(
            [
                item.with_type(pa.date32())
                if pt.is_timestamp(item.type) and item.name not in self.stated
                else item
                for item in schema
            ]
        )

    def _without_nulls(self, schema: pa.Schema, blocks: Iterator[TextBlock]) -> pa.Schema:
        """Return the schema with types of columns that have no value in the first block."""
        for number, block in enumerate(blocks):
            unknown = [item.name for item in schema if pt.is_null(item.type) and item.name not in self.stated]
            if not unknown or number == _INFERRED_BLOCKS or len(set(schema.names)) < len(schema):
                break
            found = self._parsed(block, schema.names, {}, only=unknown).schema
            for name in unknown:
                if pt.is_binary(found.field(name).type):
                    raise not_utf8(self.path, f"the column {name!r}", field=name)
                schema = schema.set(schema.get_field_index(name), found.field(name))
        return schema

    def _blocks(self) -> Iterator[TextBlock]:
        find_end = _find_end(self.delimiter)
        for block in read_blocks(self.path, self.options.encoding, find_end):
            if block.is_rest:
                _check_closed(block, find_end, self.path)
            yield block

    def _parsed(
        self,
        block: TextBlock,
        names: Sequence[str] | None,
        types: Mapping[str, pa.DataType],
        *,
        only: Sequence[str] | None = None,
    ) -> pa.Table:
        """Parse a block; without names, its first record has them."""
        form = self.options.timestamp_format
        parsed = {name: _parsed_type(kind, form) for name, kind in types.items()}
        convert = self._convert(parsed, only)
        try:
            table = self._read(block, names, convert)
        except pa.ArrowInvalid as error:
            if is_about_utf8(error):
                raise
            raise self._invalid(block, names, types, error) from error
        for position, item in enumerate(table.schema):
            kind = types.get(item.name)
            if kind is not None and item.type != kind:
                table = table.set_column(
                    position, item.with_type(kind), self._cast(table, position, kind, block)
                )
        return table

    def _read(self, block: TextBlock, names: Sequence[str] | None, convert: pacsv.ConvertOptions) -> pa.Table:
        # In a file of one column, an empty line is a row without a value.
        has_rows_without_text = len(self._header(block) if names is None else names) == 1
        parse = pacsv.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=b'"' in block.data,
            ignore_empty_lines=not has_rows_without_text,
        )
        data = block.data.lstrip(b"\r\n") if has_rows_without_text and names is None else block.data
        if data.startswith(codecs.BOM_UTF8):
            # Arrow leaves out the first one of each block, and that of the file is gone already.
            data = codecs.BOM_UTF8 + data
        try:
            read = pacsv.ReadOptions(column_names=names, block_size=_PARSED_AT_ONCE)
            return pacsv.read_csv(pa.BufferReader(data), read, parse, convert)
        except pa.ArrowInvalid:
            # Rows longer than what is parsed at once; and errors of the whole block are always the same.
            read = pacsv.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False)
            return pacsv.read_csv(pa.BufferReader(data), read, parse, convert)

    def _convert(
        self, types: Mapping[str, pa.DataType], only: Sequence[str] | None, *, is_text: bool = False
    ) -> pacsv.ConvertOptions:
        options: dict[str, object] = {"column_types": dict(types), "include_columns": only}
        if self.options.null_values is not None:
            options["null_values"] = list(self.options.null_values)
        options["strings_can_be_null"] = is_text or self.options.null_values is not None
        if self.options.timestamp_format is not None:
            options["timestamp_parsers"] = [self.options.timestamp_format, pacsv.ISO8601]
        return pacsv.ConvertOptions(decimal_point=self.options.decimal_point, **options)

    def _texts(
        self, block: TextBlock, names: Sequence[str] | None, columns: Collection[str]
    ) -> pa.Table | None:
        """Return columns of a block as trimmed strings, null for null markers; None without columns."""
        if not columns:
            return None
        wanted = list(columns)
        convert = self._convert(dict.fromkeys(wanted, pa.string()), wanted, is_text=True)
        table = self._read(block, names, convert)
        return pa.table([pc.utf8_trim_whitespace(column) for column in table.columns], table.column_names)

    def _cast(self, table: pa.Table, position: int, kind: pa.DataType, block: TextBlock) -> pa.ChunkedArray:
        try:
            return table.column(position).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            name = table.column_names[position]
            raise InvalidArgumentError(
                f"a value of column {name!r} from line {block.line} on does not fit {kind}: {error}",
                path=self.path,
                field=name,
            ) from error

    def _errors(self) -> "_CsvErrors":
        return _CsvErrors(self.path, self.delimiter, self.options.encoding)

    def _invalid(
        self,
        block: TextBlock,
        names: Sequence[str] | None,
        types: Mapping[str, pa.DataType],
        error: pa.ArrowInvalid,
    ) -> InvalidArgumentError:
        """Return the error of a block, with the line."""
        text, hint = str(error), separator_hint(self.path, self.delimiter)
        counted, converted = _COUNT.search(text), _CONVERSION.search(text)
        if counted is not None:
            wanted = int(counted[1])
            line = self._line_where(block, lambda record: len(record) != wanted)
            got = counted[2]
            return InvalidArgumentError(
                f"the lines of the file differ: line {line} has {got} columns instead of {wanted}",
                path=self.path,
                hint=hint
                or "correct that line; a value that contains the delimiter has to be in double quotes",
            )
        if converted is None:
            return InvalidArgumentError(f"cannot read the input: {text}", path=self.path, hint=hint)
        position, kind, value = int(converted[1]), converted[2], converted[3]
        found = names if names is not None else self._header(block)
        name = found[position] if position < len(found) else f"#{position + 1}"
        line = self._line_where(
            block, lambda record: position < len(record) and record[position].strip() == value
        )
        return self._unfit(name, kind, value, line, types)

    def _unfit(
        self, name: str, kind: str, value: str, line: int, types: Mapping[str, pa.DataType]
    ) -> InvalidArgumentError:
        wanted = str(types[name]) if name in types else kind
        if name in self.stated:
            hint = (
                f"correct the value; or state which texts are null: null_values=[{value!r}] "
                f"(--null {value!r})"
            )
        else:
            hint = (
                f"the type was inferred from the first {FIRST_BYTES >> 20} MiB of the file: state it, as "
                f"column_types={{{name!r}: 'string'}} (--column-type {name}=string)"
            )
        return InvalidArgumentError(
            f"line {line}: {value!r} in column {name!r} is not {_article(wanted)}",
            path=self.path,
            field=name,
            hint=hint,
        )

    def _header(self, block: TextBlock) -> list[str]:
        return next((record for record, _ in self._records(block) if record), [])

    def _line_where(self, block: TextBlock, matches: Callable[[list[str]], bool]) -> int:
        """Return the line of the first record for which a condition holds."""
        is_header = self.options.column_names is None and block.line == 1
        for record, line in self._records(block):
            if not record:
                continue
            if not is_header and matches(record):
                return line
            is_header = False
        return block.line

    def _records(self, block: TextBlock) -> Iterator[tuple[list[str], int]]:
        text = io.StringIO(block.data.decode("utf-8", errors="replace"), newline="")
        reader = csv.reader(text, delimiter=self.delimiter)
        line = block.line
        try:
            for record in reader:
                yield record, line
                line = block.line + reader.line_num
        except csv.Error:
            return


@dataclass(frozen=True, slots=True)
class _CsvErrors:
    """Turns errors about the encoding of a file into an error that names the first wrong byte."""

    path: str
    delimiter: str
    encoding: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, (pa.ArrowInvalid, UnicodeDecodeError, InvalidArgumentError)):
            return
        if isinstance(error, InvalidArgumentError) and "is not UTF-8" in error.message:
            return
        is_ours = isinstance(error, InvalidArgumentError)
        if (not is_ours and is_about_utf8(error)) or (self.encoding == "utf-8" and is_utf16(self.path)):
            what = str(error) if isinstance(error, pa.ArrowInvalid) else "the header"
            raise not_utf8(self.path, what) from error


def _numeric(schema: pa.Schema, stated: Collection[str]) -> list[str]:
    """Return inferred columns of numbers; none where names are ambiguous."""
    if len(set(schema.names)) < len(schema):
        return []
    return [
        item.name
        for item in schema
        if item.name not in stated and (pt.is_integer(item.type) or pt.is_floating(item.type))
    ]


def _parsed_type(kind: pa.DataType, form: str | None) -> pa.DataType:
    """Return the type as which the text of a column is parsed before it is cast."""
    if isinstance(kind, pa.BaseExtensionType):
        return _parsed_type(kind.storage_type, form)
    if pt.is_dictionary(kind):
        return _parsed_type(kind.value_type, form)
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_date(kind) and form is not None:
        return pa.timestamp("s")
    return kind


def _article(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


def _find_end(delimiter: str) -> Callable[[bytes], int]:
    """Return a function that finds the end of the last whole record.

    A quotation mark opens a quoted value only at its start, as Arrow reads it; within one, lines may end.
    """
    sign = re.escape(delimiter.encode())
    value = rb'(?:"[^"]*+(?:""[^"]*+)*+"[^' + sign + rb"\n]*+|[^" + sign + rb'\n"][^' + sign + rb"\n]*+)?+"
    records = re.compile(rb"(?:" + value + rb"(?:" + sign + value + rb")*+\n)*+")

    def find_end(data: bytes) -> int:
        if b'"' not in data:
            end = data.rfind(b"\n") + 1
            # Without any line feed, lines end with carriage returns.
            return end or data.rfind(b"\r", 0, len(data) - 1) + 1
        found = records.match(data)
        return 0 if found is None else found.end()

    return find_end


def _check_closed(block: TextBlock, find_end: Callable[[bytes], int], path: str) -> None:
    """Check that the last record of a file, which may lack its line feed, does not end in a quoted value."""
    data = block.data
    if b'"' not in data:
        return
    end = find_end(data)
    if find_end(data[end:] + b"\n") != len(data) - end + 1:
        raise InvalidArgumentError(
            "the file ends early, or lacks a quotation mark: the record of line "
            f"{block.line_at(end)} does not end",
            path=path,
            hint="write the file again, or correct that line",
        )
