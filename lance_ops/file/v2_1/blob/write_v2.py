"""Writer of blobs of 2.2: bytes are written to the data file or a side file immediately, descriptors remain.

Small values are in the data file, larger ones share side files, and the largest have one each.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import validity_bitmap
from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.encoding.values.values import Variable
from lance_ops.errors import SchemaMismatchError
from lance_ops.file.layout import PageSink
from lance_ops.file.schema.blob_fields import DEDICATED_KEY, DESCRIPTOR, INLINE_KEY, PACK_KEY
from lance_ops.file.schema.blob_limits import blob_limit
from lance_ops.file.schema.blob_uris import path_within
from lance_ops.file.schema.model import Field
from lance_ops.file.v2_1.blob.read_v2 import DEDICATED, EXTERNAL, INLINE, PACKED
from lance_ops.storage import StoreWriter


@dataclass(frozen=True, slots=True)
class _Limits:
    """Size limits in bytes.

    Attributes:
        inline: Larger values are in side files.
        dedicated: Larger values have a separate file.
        pack: Maximum size of a shared file.
    """

    inline: int
    dedicated: int
    pack: int

    @classmethod
    def of_field(cls, field: Field) -> "_Limits":
        """Read the options of a field."""
        return cls(
            blob_limit(field.metadata, INLINE_KEY),
            blob_limit(field.metadata, DEDICATED_KEY),
            blob_limit(field.metadata, PACK_KEY),
        )


class BlobV2Writer:
    """The blobs of one column.

    Args:
        field: The blob field.
        sink: Takes the bytes.
        name: Path of the field, for errors.
    """

    def __init__(self, field: Field, sink: PageSink, name: str) -> None:
        self._limits = _Limits.of_field(field)
        self._sink = sink
        self._name = name
        self._pack: tuple[int, StoreWriter] | None = None
        self._pack_size = 0

    def write(self, array: pa.Array) -> pa.Array:
        """Store the values of logical blobs.

        Args:
            array: A struct of `data`, `uri`, and possibly `position` and `size`; may be a slice.

        Returns:
            Their descriptors, with the same nulls.

        Raises:
            SchemaMismatchError: A blob has both bytes and a URI, or neither, or a URI that is not absolute.
        """
        valid = np.asarray(array.is_valid())
        members = {member.name: array.field(number) for number, member in enumerate(array.type)}
        data, uri = members["data"], members["uri"]
        has_data = valid & np.asarray(data.is_valid())
        has_uri = valid & np.asarray(uri.is_valid())
        if bool((valid & (has_data == has_uri)).any()):
            raise self._mismatch("must have either bytes or a URI")
        words = np.zeros((4, len(array)), dtype=np.uint64)
        values = from_arrow(data)
        assert isinstance(values, Variable)
        starts = (values.offsets - values.offsets[0]).tolist()
        for row in np.flatnonzero(has_data).tolist():
            words[:, row] = self._store(values.data.slice(starts[row], starts[row + 1] - starts[row]))
        uris = [""] * len(array)
        if bool(has_uri.any()):
            self._refer(words, uris, np.flatnonzero(has_uri), members)
        validity = validity_bitmap(array)
        children = [
            pa.array(words[number]).cast(member.type) if number < len(words) else pa.array(uris, member.type)
            for number, member in enumerate(DESCRIPTOR)
        ]
        null_count = 0 if validity is None else -1
        return pa.Array.from_buffers(
            DESCRIPTOR, len(array), [validity], null_count=null_count, children=children
        )

    def finish(self) -> None:
        """Make all side files durable."""
        if self._pack is not None:
            self._pack[1].close()
            self._pack = None

    def _store(self, value: pa.Buffer) -> tuple[int, int, int, int]:
        size = value.size
        if size > self._limits.dedicated:
            number, output = self._sink.side_files.create()
            output.write(value)
            output.close()
            return DEDICATED, 0, size, number
        if size <= self._limits.inline:
            position, _ = self._sink.write_buffer(value) if size else (0, 0)
            return INLINE, position, size, 0
        if self._pack is None or self._pack_size + size > self._limits.pack:
            self.finish()
            self._pack = self._sink.side_files.create()
            self._pack_size = 0
        number, output = self._pack
        output.write(value)
        position, self._pack_size = self._pack_size, self._pack_size + size
        return PACKED, position, size, number

    def _refer(
        self,
        words: npt.NDArray[np.uint64],
        uris: list[str],
        rows: npt.NDArray[np.intp],
        members: dict[str, pa.Array],
    ) -> None:
        positions, sizes = members.get("position"), members.get("size")
        for row in rows.tolist():
            uri = members["uri"][row].as_py()
            if not urlsplit(uri).scheme:
                raise self._mismatch(f"must have an absolute URI, not {uri!r}")
            position = None if positions is None else positions[row].as_py()
            size = None if sizes is None else sizes[row].as_py()
            if (position is None) != (size is None) or size == 0:
                raise self._mismatch("must have both position and size of a part of an object, or neither")
            base, uris[row] = path_within(uri, self._sink.side_files.base_uris) or (0, uri)
            words[:, row] = EXTERNAL, position or 0, size or 0, base

    def _mismatch(self, what: str) -> SchemaMismatchError:
        return SchemaMismatchError(
            "the data do not fit the schema", [f"blobs of column {self._name!r} {what}"]
        )
