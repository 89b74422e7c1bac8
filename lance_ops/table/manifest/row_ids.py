"""Row id sequences and row version sequences of tables with stable row ids. Source: rowids.proto.

A sequence has one entry per physical row of a fragment, deleted rows included, in row order.
"""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lance_ops.encoding.distinct import distinct
from lance_ops.errors import CorruptManifestError, UnsupportedError
from lance_ops.pb import rowids_pb2
from lance_ops.table.manifest.fragment import ExternalFile, RowSequence

UInt64Array = npt.NDArray[np.uint64]
_MessageT = TypeVar("_MessageT", rowids_pb2.RowIdSequence, rowids_pb2.RowDatasetVersionSequence)

_U16 = 1 << 16
_U32 = 1 << 32
# Protobuf frame, two varints of up to ten bytes: precise enough to choose a representation.
_RANGE_COST = 16
# Above this share of gaps a list of ascending ranges takes more space than plain values.
_MAX_STRETCHES_SHARE = 16
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.int64)


def decode_row_ids(data: bytes, *, rows: int, path: str | None = None) -> UInt64Array:
    """Read a RowIdSequence.

    Args:
        data: The serialised message.
        rows: Physical rows of the fragment, which the sequence must have.
        path: The manifest, for errors.

    Returns:
        uint64 of shape (rows,): the id of each row.

    Raises:
        CorruptManifestError: The bytes are damaged, or the sequence has another length.
    """
    message = _parse(rowids_pb2.RowIdSequence, data, path)
    _check_count(sum(_count(segment, path) for segment in message.segments), rows, path)
    return _concatenate([_values(segment, path) for segment in message.segments])


def find_row_ids(
    data: bytes, wanted: UInt64Array, *, rows: int, path: str | None = None
) -> npt.NDArray[np.int64]:
    """Find ids in a RowIdSequence; ranges, the usual case, are not expanded.

    Args:
        data: The serialised message.
        wanted: Ids, in any order.
        rows: Physical rows of the fragment, which the sequence must have.
        path: The manifest, for errors.

    Returns:
        int64, as many as `wanted`: the position of each, -1 if it is not in the sequence.

    Raises:
        CorruptManifestError: The bytes are damaged, or the sequence has another length.
    """
    places = np.full(len(wanted), -1, dtype=np.int64)
    start = 0
    for segment in _parse(rowids_pb2.RowIdSequence, data, path).segments:
        count = _count(segment, path)
        if count:
            here = _find(segment, wanted, path)
            inside = here >= 0
            places[inside] = here[inside] + start
        start += count
    _check_count(start, rows, path)
    return places


def row_id_range(data: bytes, *, rows: int, path: str | None = None) -> range | None:
    """Return the ids of a RowIdSequence that is one range, the usual case; None otherwise.

    Args:
        data: See `decode_row_ids`, also for errors.
        rows: See there.
        path: See there.
    """
    segments = _parse(rowids_pb2.RowIdSequence, data, path).segments
    if len(segments) != 1 or segments[0].WhichOneof("segment") != "range":
        return None
    _check_count(_count(segments[0], path), rows, path)
    return range(segments[0].range.start, segments[0].range.end)


def count_row_ids(data: bytes, *, path: str | None = None) -> int:
    """Count the entries of a RowIdSequence without expanding it; raises as `decode_row_ids` does."""
    message = _parse(rowids_pb2.RowIdSequence, data, path)
    return sum(_count(segment, path) for segment in message.segments)


def end_of_row_ids(data: bytes, *, path: str | None = None) -> int:
    """Return the lowest number above all ids of a RowIdSequence, 0 if it is empty; ranges are not expanded.

    Raises:
        CorruptManifestError: The bytes are damaged.
    """
    end = 0
    for segment in _parse(rowids_pb2.RowIdSequence, data, path).segments:
        kind = segment.WhichOneof("segment")
        if kind in ("range", "range_with_holes", "range_with_bitmap"):
            # Holes and bitmaps are written up to an existing id.
            end = max(end, getattr(segment, kind).end)
        elif _count(segment, path):
            end = max(end, int(_values(segment, path).max()) + 1)
    return end


def encode_row_ids(ids: UInt64Array) -> bytes:
    """Serialise a RowIdSequence in the smallest representation.

    Args:
        ids: uint64 of shape (rows,).
    """
    message = rowids_pb2.RowIdSequence(segments=_segments(np.asarray(ids, dtype=np.uint64)))
    return message.SerializeToString(deterministic=True)


def decode_row_versions(data: bytes, *, rows: int, path: str | None = None) -> UInt64Array:
    """Read a RowDatasetVersionSequence.

    Args:
        data: The serialised message.
        rows: Physical rows of the fragment, which the sequence must have.
        path: The manifest, for errors.

    Returns:
        uint64 of shape (rows,): the version in which each row was created or last changed.

    Raises:
        CorruptManifestError: The bytes are damaged, or the sequence has another length.
    """
    versions, counts = _runs(data, rows, path)
    return np.repeat(versions, counts)


def row_versions_at(
    data: bytes, offsets: npt.NDArray[np.int64], *, rows: int, path: str | None = None
) -> UInt64Array:
    """Return the versions of some rows, without expanding runs; see `decode_row_versions`.

    Args:
        data: See `decode_row_versions`, also for errors.
        offsets: Of the rows, each below `rows`.
        rows: See there.
        path: See there.
    """
    versions, counts = _runs(data, rows, path)
    if len(versions) == 1:
        return np.full(len(offsets), versions[0])
    return versions[np.searchsorted(np.cumsum(counts), offsets, side="right")]


def encode_row_versions(versions: UInt64Array) -> bytes:
    """Serialise a RowDatasetVersionSequence, one run per range of equal versions.

    Args:
        versions: uint64 of shape (rows,).
    """
    values = np.asarray(versions, dtype=np.uint64)
    message = rowids_pb2.RowDatasetVersionSequence()
    if not len(values):
        return b""
    starts = _starts_of_runs(values[1:] != values[:-1])
    for start, end in zip(starts, [*starts[1:], len(values)], strict=True):
        run = message.runs.add(version=int(values[start]))
        run.span.range.start, run.span.range.end = start, end
    return message.SerializeToString(deterministic=True)


def inline(sequence: RowSequence, *, path: str | None = None) -> bytes:
    """Return the bytes of a sequence that is stored in the manifest.

    Raises:
        UnsupportedError: It is stored elsewhere.
    """
    if isinstance(sequence, bytes):
        return sequence
    where = f"the file {sequence.path!r}" if isinstance(sequence, ExternalFile) else "a data file"
    raise UnsupportedError(
        f"the row id sequence must be stored in the manifest, but is in {where}", path=path
    )


def _runs(data: bytes, rows: int, path: str | None) -> tuple[UInt64Array, npt.NDArray[np.int64]]:
    """Return version and length of each run."""
    runs = _parse(rowids_pb2.RowDatasetVersionSequence, data, path).runs
    counts = [_count(run.span, path) for run in runs]
    _check_count(sum(counts), rows, path)
    return np.array([run.version for run in runs], np.uint64), np.array(counts, np.int64)


def _segments(ids: UInt64Array) -> Iterator[rowids_pb2.U64Segment]:
    if not len(ids):
        return
    stretches = _starts_of_runs(ids[1:] <= ids[:-1])
    if len(stretches) > 1 and len(stretches) * _MAX_STRETCHES_SHARE > len(ids):
        yield rowids_pb2.U64Segment(array=_encode_array(ids))
        return
    for start, end in zip(stretches, [*stretches[1:], len(ids)], strict=True):
        yield from _ascending_segments(ids[start:end])


def _ascending_segments(ids: UInt64Array) -> Iterator[rowids_pb2.U64Segment]:
    first, last = int(ids[0]), int(ids[-1])
    span = last - first + 1
    runs = _starts_of_runs(ids[1:] != ids[:-1] + np.uint64(1))
    costs = {
        "ranges": len(runs) * _RANGE_COST,
        "holes": _RANGE_COST + (span - len(ids)) * _width(span),
        "bitmap": _RANGE_COST + (span + 7) // 8,
        "sorted": _RANGE_COST + len(ids) * _width(span),
    }
    cheapest = min(costs, key=lambda name: costs[name])
    segment = rowids_pb2.U64Segment()
    if cheapest == "ranges":
        for start, end in zip(runs, [*runs[1:], len(ids)], strict=True):
            piece = rowids_pb2.U64Segment()
            piece.range.start, piece.range.end = int(ids[start]), int(ids[end - 1]) + 1
            yield piece
        return
    if cheapest == "sorted":
        segment.sorted_array.CopyFrom(_encode_array(ids))
    elif cheapest == "holes":
        present = _presence(ids, first, span)
        segment.range_with_holes.start, segment.range_with_holes.end = first, last + 1
        holes = np.flatnonzero(~present).astype(np.uint64) + np.uint64(first)
        segment.range_with_holes.holes.CopyFrom(_encode_array(holes))
    else:
        segment.range_with_bitmap.start, segment.range_with_bitmap.end = first, last + 1
        # The specification says most significant bit first; every writer stores the opposite.
        segment.range_with_bitmap.bitmap = np.packbits(
            _presence(ids, first, span), bitorder="little"
        ).tobytes()
    yield segment


def _presence(ids: UInt64Array, first: int, span: int) -> npt.NDArray[np.bool_]:
    present = np.zeros(span, dtype=np.bool_)
    present[(ids - np.uint64(first)).astype(np.int64)] = True
    return present


def _starts_of_runs(breaks: npt.NDArray[np.bool_]) -> list[int]:
    return [0, *(np.flatnonzero(breaks) + 1).tolist()]


def _width(span: int) -> int:
    return 2 if span <= _U16 else 4 if span <= _U32 else 8


def _encode_array(values: UInt64Array) -> rowids_pb2.EncodedU64Array:
    base = int(values.min())
    width = _width(int(values.max()) - base + 1)
    message = rowids_pb2.EncodedU64Array()
    offsets = values - np.uint64(base)
    if width == 2:
        message.u16_array.base, message.u16_array.offsets = base, offsets.astype("<u2").tobytes()
    elif width == 4:
        message.u32_array.base, message.u32_array.offsets = base, offsets.astype("<u4").tobytes()
    else:
        message.u64_array.values = values.astype("<u8").tobytes()
    return message


def _values(segment: rowids_pb2.U64Segment, path: str | None) -> UInt64Array:
    kind = segment.WhichOneof("segment")
    if kind == "range":
        return np.arange(segment.range.start, segment.range.end, dtype=np.uint64)
    if kind == "range_with_holes":
        holes = segment.range_with_holes
        values = np.arange(holes.start, holes.end, dtype=np.uint64)
        return values[~np.isin(values, _decode_array(holes.holes, path))]
    if kind == "range_with_bitmap":
        bitmap = segment.range_with_bitmap
        return np.flatnonzero(_bits(bitmap)).astype(np.uint64) + np.uint64(bitmap.start)
    return _decode_array(segment.sorted_array if kind == "sorted_array" else segment.array, path)


def _find(segment: rowids_pb2.U64Segment, wanted: UInt64Array, path: str | None) -> npt.NDArray[np.int64]:
    """Return positions of ids in a non-empty segment, -1 if they are not in it."""
    kind = segment.WhichOneof("segment")
    if kind in ("range", "range_with_holes", "range_with_bitmap"):
        span = getattr(segment, kind)
        first = np.uint64(span.start)
        known = (wanted >= first) & (wanted < np.uint64(span.end))
        offsets = np.where(known, wanted - first, np.uint64(0)).astype(np.int64)
        if kind == "range":
            return np.where(known, offsets, -1)
        if kind == "range_with_holes":
            holes = np.sort(_decode_array(span.holes, path))
            before = np.searchsorted(holes, wanted)
            known &= holes[np.minimum(before, len(holes) - 1)] != wanted if len(holes) else True
            return np.where(known, offsets - before, -1)
        packed = np.frombuffer(span.bitmap, dtype=np.uint8)
        whole, bit = offsets >> 3, (offsets & 7).astype(np.uint8)
        known &= (packed[whole] >> bit) & 1 == 1
        before = np.concatenate(([0], np.cumsum(_ONES[packed], dtype=np.int64)))[whole]
        return np.where(known, before + _ONES[packed[whole] & ((1 << bit) - 1).astype(np.uint8)], -1)
    values = _values(segment, path)
    order = None if kind == "sorted_array" else np.argsort(values, kind="stable")
    at = np.minimum(np.searchsorted(values, wanted, sorter=order), len(values) - 1)
    at = at if order is None else order[at]
    return np.where(values[at] == wanted, at, -1)


def _count(segment: rowids_pb2.U64Segment, path: str | None) -> int:
    """Count the entries of a segment. Memory is bounded by the bytes of the segment, never by its numbers."""
    kind = segment.WhichOneof("segment")
    if kind == "range":
        return _span(segment.range.start, segment.range.end, path)
    if kind == "range_with_holes":
        holes = segment.range_with_holes
        span = _span(holes.start, holes.end, path)
        missing = _decode_array(holes.holes, path)
        inside = (missing >= np.uint64(holes.start)) & (missing < np.uint64(holes.end))
        if not inside.all() or len(distinct(missing)) != len(missing):
            raise CorruptManifestError("holes outside of the row id range", path=path, field="row_ids")
        return span - len(missing)
    if kind == "range_with_bitmap":
        bitmap = segment.range_with_bitmap
        if len(bitmap.bitmap) < (_span(bitmap.start, bitmap.end, path) + 7) // 8:
            raise CorruptManifestError(
                "the bitmap of a row id range is too short", path=path, field="row_ids"
            )
        return int(np.count_nonzero(_bits(bitmap)))
    if kind is None:
        raise CorruptManifestError("a row id segment of unknown kind", path=path, field="row_ids")
    return len(_decode_array(segment.sorted_array if kind == "sorted_array" else segment.array, path))


def _bits(bitmap: rowids_pb2.U64Segment.RangeWithBitmap) -> npt.NDArray[np.bool_]:
    packed = np.frombuffer(bitmap.bitmap, dtype=np.uint8)
    # Counting and searching booleans is several times faster than numbers.
    return np.unpackbits(packed, count=bitmap.end - bitmap.start, bitorder="little").view(np.bool_)


def _span(start: int, end: int, path: str | None) -> int:
    if end < start:
        raise CorruptManifestError("a row id range that ends before it starts", path=path, field="row_ids")
    return end - start


def _decode_array(message: rowids_pb2.EncodedU64Array, path: str | None) -> UInt64Array:
    kind = message.WhichOneof("array")
    if kind == "u16_array":
        base, raw, dtype = message.u16_array.base, message.u16_array.offsets, "<u2"
    elif kind == "u32_array":
        base, raw, dtype = message.u32_array.base, message.u32_array.offsets, "<u4"
    elif kind == "u64_array":
        base, raw, dtype = 0, message.u64_array.values, "<u8"
    else:
        return np.empty(0, dtype=np.uint64)
    if len(raw) % np.dtype(dtype).itemsize:
        raise CorruptManifestError("a row id array is truncated inside a value", path=path, field="row_ids")
    return np.frombuffer(raw, dtype=dtype).astype(np.uint64) + np.uint64(base)


def _check_count(count: int, rows: int, path: str | None) -> None:
    if count != rows:
        raise CorruptManifestError(
            f"the length of a row id or row version sequence does not match (expected {rows}, got {count})",
            path=path,
            field="row_ids",
        )


def _concatenate(parts: list[UInt64Array]) -> UInt64Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _parse(kind: type[_MessageT], data: bytes, path: str | None) -> _MessageT:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise CorruptManifestError(
            f"a row id sequence cannot be parsed: {error}", path=path, field="row_ids"
        ) from error
