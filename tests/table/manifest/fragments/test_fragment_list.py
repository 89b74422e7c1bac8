"""Lists of fragments that are objects only where they are asked for: equal to tuples of them in all ways."""

import pickle

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.errors import CorruptManifestError
from lance_ops.pb import summary_pb2, table_pb2
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.file import read as manifest_file
from lance_ops.table.manifest.file.read import decode_manifest
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragment import (
    DeletionFile,
    DeletionFileType,
    ExternalFile,
    Fragment,
    SpilledSequence,
)
from lance_ops.table.manifest.fragments import totals
from lance_ops.table.manifest.fragments.fragment_list import FragmentList, read_list
from lance_ops.table.transaction.operations import present_files, used_among
from tests.support.table_values import manifest

U32, U64 = (1 << 32) - 1, (1 << 64) - 1
# A field that no message has today.
UNKNOWN = b"\xca\x3e\x03new"

FILES = st.builds(
    DataFile,
    path=st.one_of(st.uuids().map(lambda name: f"{name}.lance"), st.text(max_size=8)),
    fields=st.lists(st.sampled_from([0, 1, 2, 3, -2, -3]), max_size=4).map(tuple),
    column_indices=st.lists(st.integers(-1, 300), max_size=4).map(tuple),
    major=st.sampled_from([0, 2]),
    minor=st.integers(0, 2),
    size_bytes=st.one_of(st.integers(0, 1 << 40), st.just(U64)),
    base_id=st.one_of(st.none(), st.integers(0, U32)),
    unknown=st.sampled_from([b"", UNKNOWN]),
)
DELETIONS = st.builds(
    DeletionFile,
    file_type=st.sampled_from(DeletionFileType),
    read_version=st.integers(0, 1 << 40),
    id=st.integers(0, U64),
    num_deleted_rows=st.integers(0, 5),
    base_id=st.one_of(st.none(), st.integers(0, 9)),
)
SEQUENCES = st.one_of(
    st.none(), st.binary(max_size=9), st.just(ExternalFile("a/b", 1, 2)), st.just(SpilledSequence())
)
FRAGMENTS = st.lists(
    st.builds(
        Fragment,
        id=st.one_of(st.integers(0, 20), st.integers(0, U32)),
        files=st.lists(FILES, max_size=3).map(tuple),
        physical_rows=st.one_of(st.just(0), st.integers(5, 1 << 32)),
        deletion_file=st.one_of(st.none(), DELETIONS),
        row_ids=SEQUENCES,
        last_updated_at_versions=SEQUENCES,
        created_at_versions=SEQUENCES,
        unknown=st.sampled_from([b"", UNKNOWN]),
    ),
    max_size=8,
    unique_by=lambda fragment: fragment.id,
)


def framed(fragments) -> bytes:
    view = summary_pb2.ManifestView(fragments=[fragment.to_bytes() for fragment in fragments])
    return view.SerializeToString()


def listed(fragments, rest: bytes = b"") -> FragmentList:
    found = read_list(framed(fragments) + rest)
    assert found is not None
    assert found[1] == rest
    return found[0]


def check_same(found, expected) -> None:
    """All that is asked of fragments, asked of both."""
    assert isinstance(found, FragmentList)
    assert isinstance(expected, tuple)
    for ask in (
        totals.ids_of,
        totals.highest_id,
        totals.total_rows,
        totals.total_physical_rows,
        totals.file_numbers,
        totals.lacking_row_ids,
        totals.have_deletions,
        totals.have_row_ids,
        totals.have_spilled,
        totals.fragments_with_overlays,
        totals.any_lacks_row_counts,
        totals.are_distinct,
    ):
        assert ask(found) == ask(expected), ask.__name__
    # Before any fragment was made an object, and after.
    for _ in range(2):
        assert encode_manifest(manifest().replace(fragments=found)) == encode_manifest(
            manifest().replace(fragments=expected)
        )
        assert (len(found), found, tuple(found)) == (len(expected), expected, expected)
    assert expected == found
    assert hash(found) == hash(expected)
    assert bool(found) == bool(expected)


@settings(max_examples=60, deadline=None)
@given(FRAGMENTS)
def test_a_list_tells_what_a_tuple_of_the_same_fragments_tells(fragments):
    check_same(listed(fragments), tuple(fragments))


@settings(max_examples=60, deadline=None)
@given(FRAGMENTS, FRAGMENTS, st.data())
def test_what_follows_from_a_list_is_what_follows_from_a_tuple(fragments, others, data):
    found, expected = listed(fragments), tuple(fragments)
    for _ in range(3):
        ids = sorted(totals.ids_of(expected))
        chosen = data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
        gone = frozenset(data.draw(st.lists(st.sampled_from([*ids, 77]), unique=True)))
        instead = [other.replace(id=number) for number, other in zip(chosen, others, strict=False)]
        first = max(ids, default=-1) + 1
        added = [other.replace(id=first + place) for place, other in enumerate(others)]
        added = [other for other in added if other.id <= U32]
        if data.draw(st.booleans()):
            # Some are objects already.
            list(found)
        found = totals.with_fragments(found, instead, gone, added)
        expected = totals.with_fragments(expected, instead, gone, added)
        check_same(found, expected)
        check_same(totals.in_id_order(found), totals.in_id_order(expected))


@settings(max_examples=30, deadline=None)
@given(FRAGMENTS, st.slices(8))
def test_parts_and_single_ones_are_those_of_a_tuple(fragments, part):
    found, expected = listed(fragments), tuple(fragments)
    check_same(found[part], expected[part])
    check_same(pickle.loads(pickle.dumps(found[part])), expected[part])
    for place in range(-len(expected), len(expected)):
        assert found[place] == expected[place]
        # Whoever keeps something for a fragment knows it again.
        assert found[place] is found[place]
    with pytest.raises(IndexError):
        found[len(expected)]
    lookup = totals.by_id(found)
    assert dict(lookup) == totals.by_id(expected)
    # Of an array, as where rows are told by their addresses.
    assert [number in lookup for number in np.arange(70)] == [n in dict(lookup) for n in range(70)]
    assert 1 << 33 not in lookup
    assert lookup.get(1 << 33) is None
    for fragment in expected:
        assert fragment in found
        assert fragment.id in lookup
        assert fragment.replace(physical_rows=fragment.physical_rows + 1) not in found


@settings(max_examples=30, deadline=None)
@given(FRAGMENTS)
def test_files_are_found_among_those_of_a_list(fragments):
    found = manifest().replace(fragments=listed(fragments))
    every = present_files(manifest().replace(fragments=tuple(fragments)))
    for files in ([*every, "data/none.lance", "_deletions/0-1-2.bin", "_deletions/x"], [], sorted(every)[:1]):
        assert used_among(files, found) == every.intersection(files)


@pytest.mark.parametrize("count", [1, 3])
def test_fragments_that_lie_apart_are_read_and_stay_what_they_are(count):
    fragments = [Fragment(number, (), 5) for number in range(count)]
    frames = [framed([fragment]) for fragment in fragments]
    # Fields of the manifest in between, as no writer of today puts them.
    message = b"".join(frame + b"\x18\x07" for frame in frames)
    found = read_list(message)
    assert found is not None
    assert tuple(found[0]) == tuple(fragments)
    assert found[0].framed() == b"".join(frames)
    assert found[1] == b"\x18\x07" * count


@settings(max_examples=150, deadline=None)
@given(FRAGMENTS.filter(len), st.data())
def test_damaged_fragments_are_read_or_refused_as_one_by_one(fragments, data):
    body = bytearray(framed(fragments))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    def outcome(small):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(manifest_file, "_SMALL_LIST", small)
            try:
                fragments, rest = manifest_file._decode_fragments(bytes(body), "m")
                manifest_file._check_fragments(table_pb2.Manifest.FromString(rest), fragments, "m")
                return tuple(fragments), [fragment.to_bytes() for fragment in fragments]
            except (CorruptManifestError, DecodeError) as error:
                return type(error)

    assert outcome(-1) == outcome(1 << 60)


def test_a_commit_carries_what_it_does_not_know_as_it_is(monkeypatch):
    strange = [Fragment(number, (), 5, unknown=UNKNOWN) for number in range(4)]
    monkeypatch.setattr(manifest_file, "_SMALL_LIST", -1)
    opened = decode_manifest(encode_manifest(manifest(*strange, max_fragment_id=9)), path="m")
    assert isinstance(opened.fragments, FragmentList)
    following = opened.replace(fragments=totals.with_fragments(opened.fragments, added=[Fragment(9, (), 1)]))
    again = decode_manifest(encode_manifest(following), path="m")
    assert [fragment.unknown for fragment in again.fragments] == [UNKNOWN] * 4 + [b""]


@pytest.mark.parametrize(
    ("fragments", "what"),
    [
        ([Fragment(1, (), 5), Fragment(1, (), 6)], "same id"),
        ([Fragment(1 << 32, (), 5)], "out of range"),
        ([Fragment(0, (), (1 << 32) + 1)], "impossible row counts"),
        ([Fragment(0, (), 2, DeletionFile(DeletionFileType.BITMAP, 1, 1, 3))], "more deleted rows"),
    ],
)
def test_what_no_table_has_is_refused(fragments, what, monkeypatch):
    data = encode_manifest(manifest(*fragments, max_fragment_id=None))
    monkeypatch.setattr(manifest_file, "_SMALL_LIST", -1)
    with pytest.raises(CorruptManifestError, match=what):
        decode_manifest(data, path="m")


def test_many_commits_do_not_pile_up_what_they_replaced():
    found = listed([Fragment(number, (), 5) for number in range(100)])
    size = len(found.framed())
    for rows in range(1000):
        found = found.changed({7: Fragment(7, (), rows)}, (), ())
    assert len(pickle.dumps(found)) < size + 1000
    assert len(found._data) < 3 * size
    # It went last, since a commit sorts by id when it is done.
    assert found.in_id_order().rows.tolist() == np.where(np.arange(100) == 7, 999, 5).tolist()
