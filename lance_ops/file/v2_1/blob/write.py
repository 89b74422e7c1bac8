"""Writer of blob pages: values are written immediately, and pages have their positions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.bits.bitmap import validity_bitmap
from lance_ops.encoding.pages.levels import Layer
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.encoding.values.fixed_size_list import encode_fixed_size_list
from lance_ops.encoding.values.values import Fixed, Packed, Variable
from lance_ops.file.layout import PageSink
from lance_ops.file.schema.blob_fields import is_blob_v2, is_old_blob
from lance_ops.file.schema.model import Field
from lance_ops.file.v2_1.blob.read import DESCRIPTION, LEVEL_BITS
from lance_ops.file.v2_1.blob.write_v2 import BlobV2Writer
from lance_ops.file.v2_1.columns import layer_codes
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.compression.structs import compress_packed
from lance_ops.file.v2_1.mini_block.write import encode_mini_block
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.pb import encodings21_pb2 as pb


class BlobWriter(Protocol):
    """Takes the values of a blob column."""

    def write(self, array: pa.Array) -> pa.Array:
        """Store values, and return what the pages hold of them, with the same nulls."""

    def finish(self) -> None:
        """Finish the side files."""


def open_blobs(field: Field, sink: PageSink, name: str) -> BlobWriter | None:
    """Return the blob writer of a field; None for fields whose values are in pages.

    Args:
        field: A leaf.
        sink: Of the file.
        name: Path of the field, for errors.
    """
    if is_blob_v2(field):
        return BlobV2Writer(field, sink, name)
    return _OldBlobWriter(sink) if is_old_blob(field) else None


class _OldBlobWriter:
    """Blobs up to 2.1: each value is a buffer of the file."""

    def __init__(self, sink: PageSink) -> None:
        self._sink = sink

    def write(self, array: pa.Array) -> pa.Array:
        values = from_arrow(array)
        assert isinstance(values, Variable)
        starts = (values.offsets - values.offsets[0]).tolist()
        extents = np.zeros((2, len(array)), dtype=np.uint64)
        for row in np.flatnonzero(np.diff(values.offsets)).tolist():
            # Without a size, position 0 is the empty value.
            if array[row].is_valid:
                value = values.data.slice(starts[row], starts[row + 1] - starts[row])
                extents[:, row] = self._sink.write_buffer(value)
        validity = validity_bitmap(array)
        null_count = 0 if validity is None else -1
        children = [pa.array(extents[0]), pa.array(extents[1])]
        return pa.Array.from_buffers(
            DESCRIPTION, len(array), [validity], null_count=null_count, children=children
        )

    def finish(self) -> None:
        """Do nothing: there are no side files."""


def replace_leaf(array: pa.Array, steps: Sequence[int], make: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Replace a leaf.

    Args:
        array: Result of `project_leaf`; may be a slice. Values below nulls are lost.
        steps: The way to the leaf, see `LeafPath.straight`.
        make: Returns the new leaf, of equal length.
    """
    if not steps:
        return make(array)
    data_type = array.type
    validity = validity_bitmap(array)
    null_count = 0 if validity is None else -1
    if pa.types.is_struct(data_type):
        # Flattening drops values below nulls, so they are not stored.
        child = replace_leaf(array.flatten()[steps[0]], steps[1:], make)
        made: pa.DataType = pa.struct([("", child.type)])
        buffers = [validity]
    elif pa.types.is_fixed_size_list(data_type):
        child = replace_leaf(encode_fixed_size_list(array), steps[1:], make)
        made = pa.list_(child.type, data_type.list_size)
        buffers = [validity]
    else:
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
        child = replace_leaf(array.flatten(), steps[1:], make)
        large = pa.types.is_large_list(data_type)
        made = pa.large_list(child.type) if large else pa.list_(child.type)
        offsets = np.zeros(len(array) + 1, dtype=np.int64 if large else np.int32)
        np.cumsum(lengths, out=offsets[1:])
        buffers = [validity, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(made, len(array), buffers, null_count=null_count, children=[child])


def encode_blob_page(raveled: Raveled, version: str) -> EncodedPage:
    """Encode a page of blobs of the old kind.

    Args:
        raveled: Positions and sizes, as the writer of the blobs gave them, without lists.
        version: "2.1" or "2.2".
    """
    values = from_arrow(raveled.values)
    assert isinstance(values, Packed)
    members = [np.asarray(member) for member in (raveled.values.field(0), raveled.values.field(1))]
    if raveled.definition is not None:
        # Without a size, any other position holds the levels of a null.
        null = raveled.definition.astype(np.uint64) << np.uint64(LEVEL_BITS)
        members = [np.where(null > 0, null, members[0]), np.where(null > 0, 0, members[1])]
    stored = tuple(Fixed(64, values.length, member.astype("<u8").view(np.uint8)) for member in members)
    chunks = compress_packed(Packed(values.length, stored), FieldOptions(), version)
    plain = replace(raveled, layers=(Layer(is_list=False),), definition=None)
    inner = encode_mini_block(plain, chunks, None, version)
    assert inner is not None
    layout = pb.BlobLayout(inner_layout=inner.layout, layers=layer_codes(raveled.layers))
    return EncodedPage(pb.PageLayout(blob_layout=layout), inner.buffers, raveled.num_rows)
