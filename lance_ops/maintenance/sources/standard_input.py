"""Standard input: kept in a temporary file while it is read, since it can be read once only."""

import contextlib
import io
import shutil
import sys
import tempfile
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.sources.byte_streams import open_bytes
from lance_ops.maintenance.sources.file_source import FileSource, open_files
from lance_ops.maintenance.sources.input_files import input_errors
from lance_ops.maintenance.sources.read_options import ReadOptions
from lance_ops.maintenance.sources.source import LazySource

STANDARD_INPUT = "-"
"""Path of standard input."""

_LABEL = "standard input"
_COPY = 1 << 20
_PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh": ".bz2", b"\x04\x22\x4d\x18": ".lz4"}
_BEGINNINGS = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"ORC": "orc",
    b"Obj\x01": "avro",
    b"{": "json",
    b"[": "json",
}


def open_standard_input(options: ReadOptions | None = None) -> LazySource:
    """Open a source of standard input, which is read when its schema is; a job that is done drains it.

    The format is that of the options, or told by the first bytes: text that begins with an object or array is
    JSON, other text CSV.
    """
    return LazySource(_Spool(options or ReadOptions()).open, drain=_drain)


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Spool:
    """The temporary file; it is removed with this value."""

    options: ReadOptions

    def open(self) -> FileSource:
        folder = tempfile.mkdtemp(prefix="lance-ops-input-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        plain = Path(folder) / "input"
        stream, size = _stream(), 0
        with plain.open("wb") as file:
            while block := stream.read(_COPY):
                size += file.write(block)
        if not size:
            raise InvalidArgumentError(
                "standard input is empty", path=_LABEL, hint="look at the command before the pipe"
            )
        with plain.open("rb") as file:
            packed = _by_beginning(file.read(8), _PACKED) or ""
        path = plain.rename(plain.with_name(f"input{packed}"))
        chosen = self.options.format or _format_in(path)
        source = open_files([path], self.options.with_format(chosen))
        return replace(source, label=_LABEL, folder_types=())


def _format_in(path: Path) -> str:
    with input_errors(_LABEL), open_bytes(str(path)) as stream:
        start = bytes(stream.read(64))
    return _by_beginning(start.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n"), _BEGINNINGS) or "csv"


def _by_beginning(start: bytes, beginnings: dict[bytes, str]) -> str | None:
    return next((name for sign, name in beginnings.items() if start.startswith(sign)), None)


def _stream() -> BinaryIO:
    if sys.stdin is None:
        raise InvalidArgumentError(
            "standard input is closed", path=_LABEL, hint="pipe rows into it, or name files instead of -"
        )
    binary = getattr(sys.stdin, "buffer", None)
    return io.BytesIO(sys.stdin.read().encode()) if binary is None else cast("BinaryIO", binary)


def _drain() -> None:
    """Read to the end: a command before the pipe would fail if nothing read its output."""
    with contextlib.suppress(OSError, InvalidArgumentError):
        stream = _stream()
        while stream.read(_COPY):
            pass
