import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import CorruptManifestError, UnsupportedError
from lance_ops.pb import rowids_pb2
from lance_ops.table.manifest.fragment import ExternalFile
from lance_ops.table.manifest.row_ids import (
    count_row_ids,
    decode_row_ids,
    decode_row_versions,
    encode_row_ids,
    encode_row_versions,
    inline,
)

U64_MAX = 2**64 - 1


def roundtrip(ids) -> list[int]:
    array = np.array(ids, dtype=np.uint64)
    data = encode_row_ids(array)
    assert count_row_ids(data) == len(ids)
    return decode_row_ids(data, rows=len(ids)).tolist()


@given(st.lists(st.integers(0, U64_MAX - 1), max_size=200))
def test_any_ids_survive(ids):
    assert roundtrip(ids) == ids


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 300)), max_size=12), st.randoms())
def test_ids_left_over_by_deletions_survive(ranges, random):
    ids = [i for start, length in ranges for i in range(start, start + length) if random.random() < 0.8]
    assert roundtrip(ids) == ids


@pytest.mark.parametrize(
    ("ids", "kinds"),
    [
        (range(5, 105), ["range"]),
        ([*range(3, 10), *range(4000, 5000)], ["range", "range"]),
        ([i for i in range(10_000) if i % 10], ["range_with_bitmap"]),
        ([i for i in range(2_000) if i % 100], ["range_with_holes"]),
        (range(0, 100_000, 1000), ["sorted_array"]),
        ([5, 3, 9, 1, 7, 2], ["array"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) and isinstance(value[0], str) else "",
)
def test_the_smallest_segment_is_chosen(ids, kinds):
    message = rowids_pb2.RowIdSequence.FromString(encode_row_ids(np.array(list(ids), dtype=np.uint64)))
    assert [segment.WhichOneof("segment") for segment in message.segments] == kinds


def test_bitmaps_are_read_from_the_lowest_bit():
    # What pylance wrote when rows 0 and 12 of ids 0..20 were deleted and the fragments compacted.
    data = bytes.fromhex("0a060a040803100a0a0a1a08080a10141a02fb03")
    assert decode_row_ids(data, rows=16).tolist() == [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19]


@given(st.lists(st.tuples(st.integers(0, U64_MAX), st.integers(1, 50)), max_size=10))
def test_versions_survive(runs):
    versions = [version for version, count in runs for _ in range(count)]
    data = encode_row_versions(np.array(versions, dtype=np.uint64))
    assert decode_row_versions(data, rows=len(versions)).tolist() == versions


def test_a_sequence_of_another_length_is_refused_before_it_is_expanded():
    huge = rowids_pb2.RowIdSequence()
    segment = huge.segments.add()
    segment.range.start, segment.range.end = 0, 2**62
    with pytest.raises(CorruptManifestError, match="expected 10, got"):
        decode_row_ids(huge.SerializeToString(), rows=10)
    versions = rowids_pb2.RowDatasetVersionSequence()
    run = versions.runs.add(version=1)
    run.span.range.end = 2**62
    with pytest.raises(CorruptManifestError, match="expected 10, got"):
        decode_row_versions(versions.SerializeToString(), rows=10)


def _segment(**fields):
    segment = rowids_pb2.U64Segment()
    for name, value in fields.items():
        getattr(segment, name).CopyFrom(value)
    return segment


@pytest.mark.parametrize(
    "segment",
    [
        rowids_pb2.U64Segment(),
        _segment(range=rowids_pb2.U64Segment.Range(start=5, end=1)),
        _segment(range_with_bitmap=rowids_pb2.U64Segment.RangeWithBitmap(start=0, end=2**40, bitmap=b"\x01")),
        _segment(
            array=rowids_pb2.EncodedU64Array(u16_array=rowids_pb2.EncodedU64Array.U16Array(offsets=b"\1\2\3"))
        ),
        _segment(
            range_with_holes=rowids_pb2.U64Segment.RangeWithHoles(
                start=0,
                end=4,
                holes=rowids_pb2.EncodedU64Array(
                    u64_array=rowids_pb2.EncodedU64Array.U64Array(values=(99).to_bytes(8, "little"))
                ),
            )
        ),
    ],
)
def test_damaged_segments_are_refused(segment):
    data = rowids_pb2.RowIdSequence(segments=[segment]).SerializeToString()
    with pytest.raises(CorruptManifestError):
        decode_row_ids(data, rows=3)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_give_a_typed_error_or_ids(data):
    with contextlib.suppress(CorruptManifestError):
        assert len(decode_row_ids(data, rows=3)) == 3


def test_sequences_in_other_files_are_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"rowids\.bin"):
        inline(ExternalFile("rowids.bin", 0, 10))
    assert inline(b"abc") == b"abc"
