"""A writer for stores that only take whole objects.

Nothing reaches the store before `close`, so an aborted or killed writer leaves neither a half object nor the
parts of an unfinished multipart upload. Large objects wait in a temporary file of this machine.
"""

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from lance_ops.errors import StorageError
from lance_ops.storage.closing import ClosingWriter
from lance_ops.storage.failures import translate_os_error
from lance_ops.storage.range_copy import copy_by_reading
from lance_ops.storage.store import BytesLike, Store

_MEMORY = 16 << 20


class SpooledWriter(ClosingWriter):
    """A `StoreWriter` that collects the bytes and hands them over on `close`.

    Args:
        where: The object, for errors.
        publish: Uploads the object: a small one as bytes, a large one as a local file.
    """

    def __init__(self, where: str, publish: Callable[[bytes | Path], None]) -> None:
        self._where = where
        self._publish = publish
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self._written = 0
        self._open = True

    def write(self, data: BytesLike) -> None:
        """See `StoreWriter.write`."""
        if not self._open:
            raise StorageError("the writer is closed", path=self._where)
        view = memoryview(data).cast("B")
        try:
            self._append(view)
        except OSError as error:
            raise translate_os_error(error, self._where, reading=False) from error
        self._written += view.nbytes

    def _append(self, view: memoryview) -> None:
        if self._file is None and len(self._memory) + view.nbytes <= _MEMORY:
            self._memory += view
            return
        if self._file is None:
            self._file = tempfile.NamedTemporaryFile(prefix="lance_ops_upload_")  # noqa: SIM115 - closed by abort
            self._file.write(self._memory)
            self._memory = bytearray()
        self._file.write(view)

    def copy_from(self, source: Store, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        """See `StoreWriter.copy_from`."""
        copy_by_reading(self, source, path, ranges)

    def tell(self) -> int:
        """See `StoreWriter.tell`."""
        return self._written

    def close(self) -> None:
        """See `StoreWriter.close`."""
        if not self._open:
            return
        try:
            if self._file is None:
                self._publish(bytes(self._memory))
            else:
                self._flush()
                self._publish(Path(self._file.name))
        finally:
            self.abort()

    def _flush(self) -> None:
        assert self._file is not None
        try:
            self._file.flush()
        except OSError as error:
            raise translate_os_error(error, self._where, reading=False) from error

    def abort(self) -> None:
        """See `StoreWriter.abort`."""
        self._open = False
        self._memory = bytearray()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
