"""Files of rows: a stream of batches becomes one file, which appears as a whole or not at all.

A local file is written under a temporary name beside it and then renamed; an object is collected on this
machine and uploaded at the end. Unless asked to, nothing is replaced: the store itself decides, at the end,
among several writers of the same name.
"""

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from lance_ops.answers.formats import Format, format_of, lost_types, open_format, refused_type
from lance_ops.answers.text_columns import LostType
from lance_ops.errors import AlreadyExistsError, InvalidArgumentError
from lance_ops.maintenance.progress import Reporter
from lance_ops.storage import Store, open_store
from lance_ops.storage.paths import BUCKET_SCHEMES, Location, join_uri, parse_location
from lance_ops.storage.store import StoreWriter

# Rows of one part: a row group of Parquet, a batch of Arrow.
_PART_ROWS = 1 << 20
_PART_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A written file.

    Attributes:
        output: Its URI, or absolute path.
        format: Name of its format.
        rows: Rows in it.
        bytes: Its size.
        lost_types: Columns whose types a reader of the file does not get back.
    """

    output: str
    format: str
    rows: int
    bytes: int
    lost_types: tuple[LostType, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A file to write, checked before any row is read.

    Attributes:
        store: Store of its folder.
        name: Of the file.
        format: Of the file.
        overwrite: Replace a file of that name.
    """

    store: Store
    name: str
    format: Format
    overwrite: bool

    @classmethod
    def of(
        cls,
        output: str | os.PathLike[str],
        chosen: str | None = None,
        *,
        overwrite: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> "Target":
        """Check a destination.

        Args:
            output: Path or URI of the file.
            chosen: Its format; by its suffix when None.
            overwrite: Replace a file of that name.
            storage_options: Options of its store.

        Raises:
            AlreadyExistsError: There is such a file, and `overwrite` is not given.
            InvalidArgumentError: It is a folder, or its format is unknown.
        """
        location = parse_location(output)
        text = os.fspath(output)
        if text.endswith(("/", os.sep)) or (location.is_local and os.path.isdir(location.uri)):  # noqa: PTH112
            raise InvalidArgumentError(
                f"{text} is a folder, expected a file", field="output", hint="add the name of a file"
            )
        around = _dataset_around(location)
        if around is not None:
            raise InvalidArgumentError(
                f"{text} is inside of the dataset {around}, whose files are its own",
                field="output",
                hint="choose a place outside of it",
            )
        if text.endswith(".lance"):
            raise InvalidArgumentError(
                f"{text} has the suffix of a dataset",
                field="output",
                hint="clone copies a dataset; export writes parquet, arrow, csv, tsv, jsonl or json",
            )
        chosen_format = format_of(text, chosen)
        folder, _, name = location.uri.rpartition("/")
        name = unquote(name) if location.scheme in BUCKET_SCHEMES else name
        target = cls(open_store(folder or "/", storage_options), name, chosen_format, overwrite)
        if not overwrite and target.store.exists(name):
            raise target.taken()
        return target

    @property
    def uri(self) -> str:
        """URI or path of the file."""
        return join_uri(self.store.uri, self.name)

    def taken(self) -> AlreadyExistsError:
        """Return the error for a file that must not be replaced."""
        return AlreadyExistsError(
            "there is a file of this name already, and nothing was written",
            path=self.uri,
            field="overwrite",
            hint="choose another name, or pass overwrite=True",
        )

    def write(self, rows: pa.RecordBatchReader, report: Reporter) -> RowsFile:
        """Write the file.

        Raises:
            AlreadyExistsError: Another writer made a file of that name meanwhile.
            UnsupportedTypeError: The format cannot hold a column.
        """
        sure = not self.overwrite and self.store.supports_put_if_absent
        try:
            with self.store.open_writer(self.name, if_absent=sure) as writer:
                count = write_rows(rows, self.format, _Sink(writer), report)
                size = writer.tell()
                if not (self.overwrite or sure) and self.store.exists(self.name):
                    raise self.taken()
        except AlreadyExistsError as error:
            raise self.taken() from error
        return RowsFile(self.uri, self.format.name, count, size, lost_types(rows.schema, self.format))


def _dataset_around(location: Location) -> str | None:
    """Return the dataset in which a file would be; a folder of a bucket is known by its name only."""
    folders = location.uri.split("/")[:-1]
    for count in range(len(folders), 0, -1):
        folder = "/".join(folders[:count])
        if location.is_local and folder and Path(folder, "_versions").is_dir():
            return folder
        if not location.is_local and folders[count - 1].endswith(".lance"):
            return folder
    return None


def write_rows(rows: pa.RecordBatchReader, chosen: Format, sink: Any, report: Reporter) -> int:
    """Write rows to an open sink, which stays open, and return their number.

    Raises:
        UnsupportedTypeError: The format cannot hold a column.
    """
    count = 0
    with contextlib.ExitStack() as stack:
        if chosen.compression is not None:
            sink = stack.enter_context(
                pa.CompressedOutputStream(pa.PythonFile(sink, "w"), chosen.compression)
            )
        writer = open_format(chosen, rows.schema, sink)
        for part in _parts(rows):
            try:
                writer.write_table(part)
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise refused_type(chosen, rows.schema, error) from error
            count += part.num_rows
            report("rows written", count)
        writer.close()
    return count


def _parts(rows: pa.RecordBatchReader) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    count = size = 0
    for batch in rows:
        gathered.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= _PART_ROWS or size >= _PART_BYTES:
            yield pa.Table.from_batches(gathered, rows.schema)
            gathered, count, size = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered, rows.schema)


class _Sink(io.RawIOBase):
    """A store's writer as a file for pyarrow, whose `close` does not publish it."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._writer.write(view)
        return view.nbytes

    def tell(self) -> int:
        return self._writer.tell()
