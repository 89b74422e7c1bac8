"""Byte streams: bytes of an input file, decompressed, from a local disk or an object store.

No stream is passed to a reader of Arrow whose threads read ahead: text is read here, in blocks (see
`text_blocks`), and files that need random access are opened by Arrow itself, by their paths.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from lance_ops.storage.paths import canonical_scheme, is_address, parse_location

COMPRESSIONS = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""Codec of each ending of a compressed file."""

_COPY = 1 << 20


def filesystem_of(path: str) -> tuple[pafs.FileSystem, str]:
    """Return the filesystem of a path or URI, and the path in it.

    Raises:
        InvalidArgumentError: The scheme is misspelt, see `parse_location`.
    """
    if not is_address(path):
        return pafs.LocalFileSystem(), path
    if parse_location(path).is_local:
        return pafs.LocalFileSystem(), parse_location(path).uri
    # With its query, in which pyarrow takes options.
    filesystem, inner = pafs.FileSystem.from_uri(canonical_scheme(path))
    return filesystem, inner


def codec_of(path: str) -> str | None:
    """Return the codec of a compressed file by its name; None for a plain file."""
    name = path.lower()
    return next((codec for ending, codec in COMPRESSIONS.items() if name.endswith(ending)), None)


@contextmanager
def open_bytes(path: str) -> Iterator[pa.NativeFile]:
    """Open the decompressed bytes of a file, to be read by the calling thread only."""
    filesystem, inner = filesystem_of(path)
    with filesystem.open_input_stream(inner, compression=codec_of(path)) as stream:
        yield stream


@contextmanager
def local_copy(path: str) -> Iterator[str]:
    """Return the path of a plain file to open at any position: a temporary one for a compressed file.

    A URI of a plain file is returned as it is.
    """
    if codec_of(path) is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="lance-ops-input-") as folder:
        copy = Path(folder) / "input"
        with open_bytes(path) as stream, copy.open("wb") as file:
            shutil.copyfileobj(stream, file, _COPY)
        yield str(copy)
