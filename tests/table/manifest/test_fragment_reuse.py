"""Where rows go through the generations of a fragment reuse index, against lists of rows that do the same."""

import uuid
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lance_ops.errors import CorruptManifestError, FormatError, InvalidArgumentError, UnsupportedError
from lance_ops.pb import table_pb2
from lance_ops.storage import open_store
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.fragment_reuse.decode import decode_generations
from lance_ops.table.manifest.fragment_reuse.read import (
    FragmentReuse,
    read_fragment_reuse,
    with_moved_coverage,
)
from lance_ops.table.manifest.fragment_reuse.write import encode_generations, write_fragment_reuse
from tests.support.table_values import fragment, index, manifest

_Details = table_pb2.FragmentReuseIndexDetails


def address(fragment_id: int, offset: int) -> int:
    return fragment_id << 32 | offset


def group(old: dict[int, list[bool]], new: dict[int, int]) -> _Details.Group:
    """Old fragments with which of their rows survive, and new ones with their rows."""
    survivors = BitMap64(
        address(number, offset)
        for number, alive in old.items()
        for offset, is_alive in enumerate(alive)
        if is_alive
    )
    return _Details.Group(
        changed_row_addrs=survivors.serialize(),
        old_fragments=[
            _Details.FragmentDigest(id=number, physical_rows=len(alive), num_deleted_rows=alive.count(False))
            for number, alive in old.items()
        ],
        new_fragments=[
            _Details.FragmentDigest(id=number, physical_rows=rows) for number, rows in new.items()
        ],
    )


def content(*generations: list[_Details.Group]) -> bytes:
    versions = [
        _Details.Version(dataset_version=number, groups=groups) for number, groups in enumerate(generations)
    ]
    return _Details.InlineContent(versions=versions).SerializeToString()


def reuse(*generations: list[_Details.Group]) -> FragmentReuse:
    entry = index("__lance_frag_reuse", {1})
    return FragmentReuse(entry, decode_generations(content(*generations), path="t"))


def moved(made: FragmentReuse, *addresses: int) -> list[int | None]:
    new, kept = made.map(np.array(addresses, np.uint64))
    return [int(value) if is_kept else None for value, is_kept in zip(new, kept, strict=True)]


T, F = True, False
CHAIN = (
    [group({0: [T, F, T], 1: [T, T]}, {5: 3, 6: 1}), group({2: [T, T]}, {7: 2})],
    [group({5: [F, T, T], 7: [T, T]}, {9: 4})],
)


def test_rows_go_through_all_generations_and_those_that_one_dropped_are_gone():
    made = reuse(*CHAIN)
    assert moved(made, *(address(0, k) for k in range(3))) == [None, None, address(9, 0)]
    assert moved(made, address(1, 0), address(1, 1)) == [address(9, 1), address(6, 0)]
    assert moved(made, address(2, 1), address(7, 0), address(5, 0)) == [address(9, 3), address(9, 2), None]
    # What is new already, and what was never moved, stays.
    assert moved(made, address(9, 3), address(3, 7)) == [address(9, 3), address(3, 7)]
    assert moved(made) == []


def test_a_bitmap_follows_whole_groups_only():
    made = reuse(*CHAIN)
    assert made.move_fragments(frozenset({0, 1, 2})) == {6, 9}
    assert made.move_fragments(frozenset({0, 2})) == frozenset()
    assert made.move_fragments(frozenset({0, 1, 3})) == {3, 6}
    assert made.move_fragments(frozenset({5, 6, 7})) == {6, 9}
    assert made.move_fragments(frozenset({6, 9})) == {6, 9}


def test_what_came_from_a_generation_and_what_went_into_it():
    made = reuse(*CHAIN)
    assert made.descendants(0) == {5, 6, 7, 9}
    assert made.descendants(1) == {9}
    assert made.ancestors(0) == {0, 1, 2}
    assert made.ancestors(1) == {0, 1, 2, 5, 7}


@given(st.data())
def test_any_history_of_deletions_and_compactions_moves_rows_as_lists_do(data):
    fragments = {number: [(number, k) for k in range(data.draw(st.integers(1, 6)))] for number in range(5)}
    first = sorted(row for rows in fragments.values() for row in rows)
    where = dict(fragments)
    next_id, generations = 5, []
    for _ in range(data.draw(st.integers(1, 4))):
        groups, left = [], sorted(where)
        while left:
            size = data.draw(st.integers(1, len(left)))
            chosen, left = left[:size], left[size:]
            if data.draw(st.booleans()):
                continue
            alive = {number: [data.draw(st.booleans()) for _ in where[number]] for number in chosen}
            rows = [
                row
                for number in chosen
                for row, is_alive in zip(where.pop(number), alive[number], strict=True)
                if is_alive
            ]
            cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=2)))
            parts = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
            new = {next_id + k: part for k, part in enumerate(parts)}
            next_id += len(new)
            where |= new
            groups.append(group(alive, {number: len(part) for number, part in new.items()}))
        generations.append(groups)
    made = reuse(*generations)
    expected = {row: address(number, k) for number, rows in where.items() for k, row in enumerate(rows)}
    assert moved(made, *(address(*row) for row in first)) == [expected.get(row) for row in first]
    # A row at a time asks for the groups one by one.
    one_by_one = reuse(*generations)
    assert [moved(one_by_one, address(*row))[0] for row in first] == [expected.get(row) for row in first]
    assert made.move_fragments(frozenset(fragments)) == frozenset(where)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda g: g.new_fragments[0].MergeFrom(_Details.FragmentDigest(physical_rows=9)), "were written"),
        (lambda g: g.old_fragments.reverse(), "not ascending"),
        (lambda g: setattr(g, "changed_row_addrs", b"no bitmap at all"), "row addresses cannot be read"),
        (lambda g: setattr(g.old_fragments[1], "id", 1 << 40), "out of the range of row addresses"),
        (lambda g: setattr(g.old_fragments[0], "physical_rows", 1), "are in fragments"),
        (lambda g: setattr(g.old_fragments[0], "physical_rows", (1 << 32) - 1), "more than the supported"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(broken, message):
    damaged = group({0: [T, F, T], 1: [T, T]}, {5: 3, 6: 1})
    broken(damaged)
    with pytest.raises(CorruptManifestError, match=message):
        decode_generations(content([damaged]), path="t")


def test_content_that_does_not_parse_is_refused():
    with pytest.raises(CorruptManifestError, match="content cannot be parsed"):
        decode_generations(b"\xff\xff\xff", path="t")


def test_moves_of_a_newer_kind_are_refused():
    newer = _Details.Transition.FromString(b"\x8a\x01\x01x")
    content = _Details.InlineContent(transitions=[newer]).SerializeToString()
    with pytest.raises(UnsupportedError, match="newer"):
        decode_generations(content, path="t", is_tagged=True)
    with pytest.raises(CorruptManifestError, match="version 0 must not"):
        decode_generations(content, path="t")


def transition(sources: dict[int, list[bool]], destinations: dict[int, int]) -> _Details.Transition:
    made = group(sources, destinations)
    for digest, kept in zip(made.old_fragments, sources.values(), strict=True):
        digest.num_deleted_rows = kept.count(False)
    return _Details.Transition(
        sources=made.old_fragments,
        destinations=made.new_fragments,
        ordered_compaction=_Details.OrderedCompaction(changed_row_addrs=made.changed_row_addrs),
    )


def test_transitions_follow_their_fragments_and_not_their_order():
    late, early = transition({5: [T, F, T]}, {9: 2}), transition({0: [T, T], 1: [T, F]}, {5: 3})
    content = _Details.InlineContent(transitions=[late, early]).SerializeToString()
    found = decode_generations(content, path="t", is_tagged=True)
    assert [generation.old_ids for generation in found] == [{0, 1}, {5}]
    where, kept = FragmentReuse(index("__lance_frag_reuse", {9}), found).map(
        np.array([address(0, 0), address(0, 1), address(1, 0), address(1, 1)], np.uint64)
    )
    assert kept.tolist() == [True, False, True, False]
    assert where[kept].tolist() == [address(9, 0), address(9, 1)]


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        ([transition({0: [T]}, {5: 1}), transition({1: [T]}, {5: 1})], "created twice"),
        ([transition({0: [T]}, {1: 1}), transition({1: [T]}, {0: 1})], "form a cycle"),
        ([transition({0: [T]}, {5: 1}), transition({5: [T, F]}, {6: 1})], "two different row counts"),
        ([_Details.Transition(sources=[_Details.FragmentDigest(id=1)])], "no mapping"),
    ],
)
def test_transitions_that_contradict_each_other_are_refused(transitions, message):
    content = _Details.InlineContent(transitions=transitions).SerializeToString()
    with pytest.raises(CorruptManifestError, match=message):
        decode_generations(content, path="t", is_tagged=True)


def bases(path) -> Bases:
    return Bases(open_store(str(path)))


def read(path, *fragments, details: bytes, index_version: int = 0, stable: bool = False):
    entry = replace(index("__lance_frag_reuse", {9}, index_version=index_version), details=details)
    segment = index("a_idx", {0, 1, 2, 3})
    flags = {"reader_flags": 2, "writer_flags": 2} if stable else {}
    current = manifest(*fragments, max_fragment_id=9, indices=(segment, entry), **flags)
    return read_fragment_reuse(bases(path), current)


def inline(*generations: list[_Details.Group]) -> bytes:
    made = _Details.InlineContent.FromString(content(*generations))
    return _Details(inline=made).SerializeToString()


NOW = (fragment(3, 4), fragment(6, 1), fragment(9, 4))


def test_an_entry_that_cannot_be_used_leaves_nothing_covered(tmp_path):
    segment = index("a_idx", {0, 1, 2, 3})
    for made, kind in (
        (read(tmp_path, *NOW, details=inline(*CHAIN), index_version=2), UnsupportedError),
        (read(tmp_path, *NOW, details=inline(*CHAIN), stable=True), UnsupportedError),
        (read(tmp_path, *NOW, details=b"\xff\xff"), CorruptManifestError),
        # A fragment that is there was not replaced, and none is replaced twice.
        (read(tmp_path, fragment(0, 3), *NOW, details=inline(*CHAIN)), CorruptManifestError),
        (read(tmp_path, *NOW, details=inline(*CHAIN, *CHAIN)), CorruptManifestError),
    ):
        assert isinstance(made.problem, kind)
        assert made.move_segment(segment).fragment_ids == frozenset()
        with pytest.raises(kind):
            made.map(np.array([address(9, 0)], np.uint64))
    sound = read(tmp_path, *NOW, details=inline(*CHAIN))
    assert sound.problem is None
    assert sound.move_segment(segment).fragment_ids == {3, 6, 9}
    assert sound.move_segment(sound.entry) is sound.entry
    unknown = index("b_idx", None)
    assert sound.move_segment(unknown) is unknown


def test_without_an_entry_there_is_nothing_to_read(tmp_path):
    assert read_fragment_reuse(bases(tmp_path), manifest(fragment(0))) is None
    current = manifest(fragment(0), indices=(index("a_idx", {0, 7}),))
    assert with_moved_coverage(bases(tmp_path), current) is current


def test_what_newer_writers_added_survives_a_trim():
    generation = _Details.Version(dataset_version=4, groups=CHAIN[0])
    wire = generation.SerializeToString() + b"\xa2\x06\x03new"
    whole = b"\x0a" + bytes([len(wire)]) + wire if len(wire) < 128 else None
    if whole is None:
        whole = b"\x0a" + bytes([len(wire) & 0x7F | 0x80, len(wire) >> 7]) + wire
    (kept,) = decode_generations(whole, path="t")
    assert b"\xa2\x06\x03new" in encode_generations([kept])
    assert decode_generations(encode_generations([kept]), path="t")[0].groups == kept.groups


@pytest.mark.parametrize("rows", [3, 40_000])
def test_long_content_lies_in_a_file_and_is_read_from_there(tmp_path, rows):
    alive = np.random.default_rng(1).random((40, rows)) < 0.5
    groups = [
        group({number: alive[number].tolist()}, {100 + number: int(alive[number].sum())})
        for number in range(40)
    ]
    generations = decode_generations(content(groups), path="t")
    store = open_store(str(tmp_path))
    entry = write_fragment_reuse(store, generations, 7, uuid.uuid4())
    files = [info.path for info in store.list("_indices")]
    assert files == ([f"_indices/{entry.uuid}/details.binpb"] if rows > 1000 else [])
    assert entry.fragment_ids == frozenset(range(100, 140))
    new = [fragment(100 + number, int(alive[number].sum())) for number in range(40)]
    current = manifest(*new, max_fragment_id=140, indices=(entry,))
    made = read_fragment_reuse(bases(tmp_path), current)
    assert made.problem is None
    assert made.generations == generations
    if files:
        store.put(files[0], b"short")
        assert isinstance(read_fragment_reuse(bases(tmp_path), current).problem, FormatError)
        store.delete(files[0])
        assert "details.binpb" in str(read_fragment_reuse(bases(tmp_path), current).problem)


def test_an_entry_of_nothing_is_not_written(tmp_path):
    with pytest.raises(InvalidArgumentError, match="at least one generation"):
        write_fragment_reuse(open_store(str(tmp_path)), [], 1, uuid.uuid4())
