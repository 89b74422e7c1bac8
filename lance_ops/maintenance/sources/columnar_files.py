"""Columnar files: Parquet, Arrow IPC and ORC, which have types of their own, in batches."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from lance_ops.errors import InvalidArgumentError
from lance_ops.extras import load_extra
from lance_ops.maintenance.sources.byte_streams import filesystem_of, local_copy

_ROWS = 65_536
_IPC_FILE = b"ARROW1"
_END = b"\xff\xff\xff\xff\0\0\0\0"
# Before Arrow 0.15.
_OLD_END = b"\0\0\0\0"


def parquet_schema(path: str) -> pa.Schema:
    """Return the schema of a Parquet file."""
    with _open_parquet(path) as file:
        return file.schema_arrow


def parquet_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Yield batches page by page; a scanner holds whole row groups, ten times the memory, and is slower."""
    with _open_parquet(path) as file:
        yield from file.iter_batches(_ROWS)


def parquet_rows(path: str) -> int:
    """Return the number of rows of a Parquet file."""
    with _open_parquet(path) as file:
        return int(file.metadata.num_rows)


def arrow_schema(path: str) -> pa.Schema:
    """Return the schema of an Arrow IPC file or stream."""
    with _open(path) as file, _reader_of(file, path) as reader:
        return reader.schema


def arrow_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow IPC file or stream, of at most 65,536 rows each."""
    with _open(path) as file, _reader_of(file, path) as reader:
        if isinstance(reader, pa.RecordBatchReader):
            batches: Iterator[pa.RecordBatch] = iter(reader)
        else:
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                yield batch.slice(start, _ROWS)
        if isinstance(reader, pa.RecordBatchReader):
            _check_end(file, path)


def orc_schema(path: str) -> pa.Schema:
    """Return the schema of an ORC file."""
    with _open_orc(path) as file:
        return file.schema


def orc_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an ORC file, stripe by stripe."""
    with _open_orc(path) as file:
        for number in range(file.nstripes):
            stripe = file.read_stripe(number)
            for start in range(0, stripe.num_rows, _ROWS):
                yield stripe.slice(start, _ROWS)


@contextmanager
def _open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    with _open(path) as file:
        # Over a network one large request for a row group is faster than many small ones.
        yield pq.ParquetFile(file, pre_buffer="://" in path, page_checksum_verification=True)


def _reader_of(file: pa.NativeFile, path: str) -> pa.RecordBatchReader | pa.ipc.RecordBatchFileReader:
    is_file = file.read(len(_IPC_FILE)) == _IPC_FILE
    file.seek(0)
    if not is_file and not file.size():
        raise InvalidArgumentError("the file is empty", path=path, hint="remove the file from the input")
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def _check_end(file: pa.NativeFile, path: str) -> None:
    """Check that a stream ends with its mark, and the file with the stream.

    Readers take the end of a file for that of the stream: one that was cut off between batches looks whole.
    """
    end = file.tell()
    file.seek(0)
    mark = _END if file.read(4) == _END[:4] else _OLD_END
    file.seek(max(0, end - len(mark)))
    if file.read(len(mark)) != mark:
        raise InvalidArgumentError(
            "the Arrow stream ends early: it has no mark at its end", path=path, hint="write the file again"
        )
    if end != file.size():
        raise InvalidArgumentError(
            "the file has more than one Arrow stream",
            path=path,
            hint="write each to a file of its own, and name all of them",
        )


@contextmanager
def _open_orc(path: str) -> Iterator["pa.orc.ORCFile"]:
    # Builds of pyarrow may lack it.
    orc = load_extra("pyarrow.orc")
    with _open(path) as file:
        yield orc.ORCFile(file)


@contextmanager
def _open(path: str) -> Iterator[pa.NativeFile]:
    """Open a file at any position; its reads are those of the calling thread, or end before it is closed."""
    with local_copy(path) as plain:
        filesystem, inner = filesystem_of(plain)
        with filesystem.open_input_file(inner) as file:
            yield file
