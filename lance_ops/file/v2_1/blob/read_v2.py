"""Reader of blobs of 2.2: from descriptors to values in the data file, in side files, or elsewhere.

Rows are returned as they were written: with their bytes, or with the URI of an external object, which is not
fetched, so that copying rows keeps the reference.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.bits.bitmap import encode_bitmap
from lance_ops.encoding.values.binary import decode_binary
from lance_ops.errors import CorruptFileError, PathEscapeError, UnsupportedError
from lance_ops.file.io.fetch import Request, SideRequest, Steps
from lance_ops.file.io.side_files import side_name
from lance_ops.file.schema.blob_fields import DESCRIPTOR
from lance_ops.file.schema.blob_uris import uri_within
from lance_ops.storage import validate_relative_path

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

INLINE, PACKED, DEDICATED, EXTERNAL, MANAGED = range(5)
_KINDS = MANAGED + 1

# Several rows may share bytes, so that what is stored does not bound what is read.
_MAX_BYTES = 1 << 36


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Descriptors of some rows; those of nulls are zero."""

    valid: Mask
    kind: Integers
    position: Integers
    size: Integers
    number: Integers
    uri: pa.Array


def read_blobs_v2(
    descriptors: pa.Array, data_type: pa.DataType, file_size: int, base_uris: Mapping[int, str]
) -> Steps[pa.Array]:
    """Fetch the values of rows.

    Args:
        descriptors: Of type `DESCRIPTOR`.
        data_type: The struct to build, of any of the members of a logical blob.
        file_size: Of the data file.
        base_uris: Of the other bases of the table, by their ids.

    Raises:
        CorruptFileError: A value lies outside of the file, or of its base.
        UnsupportedError: A kind of blob that is not known, or one that the type cannot express.
    """
    found = parse_descriptors(descriptors)
    names = [member.name for member in data_type]
    stored = found.valid & (found.kind != EXTERNAL)
    outside = found.valid & (found.kind == EXTERNAL)
    sizes = np.where(stored, found.size, 0)
    bodies: list[pa.Buffer] = []
    if "data" in names:
        bodies = yield _requests(found, sizes, file_size)
    # The whole object has no range.
    ranged = outside & (found.size > 0)
    if "uri" in names and "position" not in names and bool(ranged.any()):
        raise UnsupportedError("a blob is a part of an object, which its column cannot express")
    made = {
        "data": lambda: _data(bodies, sizes, stored),
        "uri": lambda: _uris(found, outside, base_uris),
        "position": lambda: pa.array(found.position.astype(np.uint64), mask=~ranged),
        "size": lambda: pa.array(found.size.astype(np.uint64), mask=~ranged),
    }
    if not set(names) <= set(made):
        raise UnsupportedError(f"a blob cannot have the members {', '.join(names)}")
    children = [made[member.name]().cast(member.type) for member in data_type]
    validity = None if bool(found.valid.all()) else encode_bitmap(found.valid)
    null_count = 0 if validity is None else -1
    return pa.Array.from_buffers(
        data_type, len(descriptors), [validity], null_count=null_count, children=children
    )


def parse_descriptors(descriptors: pa.Array) -> Descriptors:
    """Parse descriptors.

    Args:
        descriptors: Of type `DESCRIPTOR`.

    Raises:
        CorruptFileError: A position or size is invalid, or a side file is missing.
        UnsupportedError: A blob is of an unknown kind.
    """
    # Some writers mark a null by its kind alone.
    valid = np.asarray(descriptors.is_valid()) & np.asarray(descriptors.field(0).is_valid())
    numbers = [descriptors.field(n).fill_null(0).to_numpy().astype(np.int64) for n in range(4)]
    kind, position, size, number = (np.where(valid, values, 0) for values in numbers)
    if bool((kind >= _KINDS).any()):
        raise UnsupportedError(f"blobs of kind {int(kind.max())} are not supported")
    if bool((position < 0).any()) or bool((size < 0).any()):
        raise CorruptFileError("a blob has a position that cannot be")
    beside = (kind == PACKED) | (kind == DEDICATED)
    if bool((beside & (number == 0)).any()):
        raise CorruptFileError("a blob in a side file has no file number")
    return Descriptors(valid, kind, position, size, number, descriptors.field(4))


def _uris(found: Descriptors, outside: Mask, base_uris: Mapping[int, str]) -> pa.Array:
    uris = pc.if_else(pa.array(outside), found.uri, pa.scalar(None, pa.string()))
    based = np.flatnonzero(outside & (found.number != 0)).tolist()
    if not based:
        return uris
    texts = uris.to_pylist()
    for row in based:
        base = base_uris.get(int(found.number[row]))
        if base is None:
            raise CorruptFileError(f"a blob refers to base {int(found.number[row])}, which is not declared")
        try:
            texts[row] = uri_within(base, texts[row])
        except PathEscapeError as error:
            raise CorruptFileError(f"a blob is outside of its base: {error.message}") from error
    return pa.array(texts, pa.string())


def _requests(found: Descriptors, sizes: Integers, file_size: int) -> list[Request]:
    own = (found.kind == INLINE) & (sizes > 0)
    if bool((found.position[own] + sizes[own] > file_size).any()):
        raise CorruptFileError("a blob is outside of its file")
    if float(sizes.astype(np.float64).sum()) > _MAX_BYTES:
        raise UnsupportedError("the blobs of these rows are too large", hint="read fewer rows at once")
    requests: list[Request] = []
    for row in np.flatnonzero(sizes).tolist():
        position, size = int(found.position[row]), int(sizes[row])
        if found.kind[row] == INLINE:
            requests.append((position, size))
        elif found.kind[row] == MANAGED:
            path = managed_path(found, row)
            requests.append(SideRequest(position, size, path, int(found.number[row])))
        else:
            start = position if found.kind[row] == PACKED else 0
            requests.append(SideRequest(start, size, side_name(int(found.number[row]))))
    return requests


def managed_path(found: Descriptors, row: int) -> str:
    """Return the path of the object of a managed blob within its base.

    Raises:
        CorruptFileError: It leaves the base.
    """
    try:
        return validate_relative_path(found.uri[row].as_py() or "")
    except PathEscapeError as error:
        raise CorruptFileError(f"a managed blob is outside of its base: {error.message}") from error


def descriptors_in(array: pa.Array) -> Iterator[pa.Array]:
    """Yield arrays of descriptors in a column that shows them, at any depth."""
    kind = array.type
    if kind == DESCRIPTOR:
        yield array
    elif pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from descriptors_in(array.field(number))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from descriptors_in(array.flatten())


def managed_bytes(array: pa.Array) -> int:
    """Return bytes of the managed blobs of a column that shows descriptors."""
    parts = map(parse_descriptors, descriptors_in(array))
    return sum(int(found.size[found.valid & (found.kind == MANAGED)].sum()) for found in parts)


def _data(bodies: list[pa.Buffer], sizes: Integers, stored: Mask) -> pa.Array:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = bodies[0] if len(bodies) == 1 else pa.py_buffer(b"".join(bodies))
    validity = None if bool(stored.all()) else encode_bitmap(stored)
    return decode_binary(offsets, validity, data, pa.large_binary())
