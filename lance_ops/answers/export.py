"""`export`: write rows of a dataset to one file for other programs."""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Unpack

from lance_ops.answers.rows_file import Target as Output
from lance_ops.answers.text_columns import LostType
from lance_ops.errors import public
from lance_ops.filter import Expression
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import Result
from lance_ops.maintenance.text import bytes_text, count_text
from lance_ops.table.dataset import Target, open_dataset
from lance_ops.table.scan.options import ScanOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult(Result):
    """Result of `export`.

    Attributes:
        uri: The dataset.
        version: The version that was read.
        output: The file: its URI, or absolute path.
        format: Name of its format.
        rows: Rows in the file.
        bytes: Its size.
        lost_types: Columns whose types a reader of the file does not get back.
        seconds: Wall-clock time from the call to the result.
    """

    output: str
    format: str
    rows: int
    bytes: int
    lost_types: tuple[LostType, ...] = ()

    @property
    def operation(self) -> str:
        """Name of the operation."""
        return "export"

    def to_dict(self) -> dict[str, object]:
        """All fields and the operation's name as JSON values."""
        return {
            **super(ExportResult, self).to_dict(),
            "lost_types": [asdict(lost) for lost in self.lost_types],
        }

    def summary(self) -> str:
        """Return the result in one line."""
        return f"{count_text(self.rows, 'row')} written to {self.output} ({bytes_text(self.bytes)})"

    def __str__(self) -> str:
        lines = [f"export: {self.summary()} (version {self.version}, {self.seconds:.2f} s)"]
        if self.lost_types:
            lost = ", ".join(map(str, self.lost_types))
            lines.append(f"  {self.format} does not keep the types of {lost}")
        return "\n".join(lines)


@public(path="output", dataset="uri_or_dataset")
def export(
    uri_or_dataset: Target,
    output: str | os.PathLike[str],
    columns: Iterable[str] | None = None,
    filter: str | Expression | None = None,  # noqa: A002 - the name of all reads
    limit: int | None = None,
    offset: int | None = None,
    *,
    format: str | None = None,  # noqa: A002 - pandas' and pyarrow's name
    overwrite: bool = False,
    output_options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    **options: Unpack[ScanOptions],
) -> ExportResult:
    """Write rows to one Parquet, Arrow, CSV, TSV, JSON or JSON lines file, in constant memory.

    The file appears as a whole or not at all, also in an object store, where it is uploaded at the end. After
    an error or Ctrl-C nothing is left; a killed process may leave a file `.tmp_*`, or one in the temporary
    folder.

    Text files do not keep all types: lists, structs and maps become JSON in CSV, bytes become base64,
    timestamps, decimals and durations text, and the width of numbers is lost. `lost_types` of the result
    lists these columns. Parquet and Arrow keep all types.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`, which is read at its own version.
        output: Path or URI of the file; the suffixes `.gz`, `.bz2` and `.zst` compress text files.
        columns: See `Dataset.scanner`.
        filter: See `Dataset.scanner`.
        limit: Maximum rows.
        offset: Rows to skip.
        format: "parquet", "arrow", "csv", "tsv", "jsonl" or "json"; by the suffix of `output` when None.
        overwrite: Replace a file of that name.
        output_options: Options of the store of `output`; those of the dataset when None.
        storage_options: Options of the store of the dataset.
        progress: Receives progress events.
        **options: As for `Dataset.scanner`; also searches.

    Raises:
        AlreadyExistsError: There is a file of that name, and `overwrite` is not set.
        UnsupportedTypeError: The format cannot hold a column.
        InvalidArgumentError: An unknown column or format, or `output` is a folder.
        PredicateError: The filter does not parse.

    Examples:
        >>> done = lo.export("events.lance", "events.csv", ["id", "vector"], "id < 3")
        >>> done.rows, [lost.column for lost in done.lost_types]
        (3, ['vector'])
    """
    started = time.monotonic()
    dataset = open_dataset(uri_or_dataset, storage_options)
    kept = dict(dataset.storage_options) if output_options is None else output_options
    target = Output.of(output, format, overwrite=overwrite, storage_options=kept)
    rows = dataset.to_batches(columns, filter, limit, offset, **options)
    done = target.write(rows, Reporter("export", progress))
    return ExportResult(
        uri=dataset.uri,
        version=dataset.version,
        seconds=time.monotonic() - started,
        output=done.output,
        format=done.format,
        rows=done.rows,
        bytes=done.bytes,
        lost_types=done.lost_types,
    )
