import re
import uuid
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptManifestError, InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.table.commit.apply import build_manifest, writer_version
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.model import BasePath, Manifest
from lance_ops.table.manifest.row_ids import decode_row_ids, decode_row_versions, encode_row_ids
from lance_ops.table.transaction.apply_fragments import next_fragment_id, reserved_ids
from lance_ops.table.transaction.operations import (
    Append,
    CreateIndex,
    Delete,
    ManifestOptions,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    UpdateConfig,
)
from lance_ops.table.transaction.transaction import decode_transaction
from tests.support.table_values import NOW, SCHEMA, data_file, fragment, index, manifest, transaction


def new(rows: int = 10, **more) -> Fragment:
    """A fragment to be added."""
    return fragment(0, rows, name=str(uuid.uuid4()), **more)


def after(current: Manifest | None, operation: Operation, **options) -> Manifest:
    return build_manifest(current, transaction(operation), ManifestOptions(NOW, **options))


def created(*fragments, **options) -> Manifest:
    return after(None, Overwrite(fragments, SCHEMA), **options)


def ids(made: Manifest) -> list[int]:
    return [f.id for f in made.fragments]


def covered(made: Manifest, name: str) -> set[int] | None:
    (found,) = [i for i in made.indices if i.name == name]
    return None if found.fragment_ids is None else set(found.fragment_ids)


# Creating


def test_the_first_version_is_numbered_from_zero():
    made = created(fragment(0), fragment(0, name="g"))
    assert made.version == 1
    assert ids(made) == [0, 1]
    assert made.max_fragment_id == 1
    assert (made.reader_flags, made.writer_flags) == (0, 0)
    assert made.data_format == ("lance", "2.0")
    assert made.writer_version == writer_version()


def test_a_dataset_without_rows_has_no_highest_fragment():
    made = created(data_storage_version="2.1")
    assert made.max_fragment_id is None
    assert made.data_format == ("lance", "2.1")
    assert ids(after(made, Append((fragment(0, files=(data_file("x", minor=1),)),)))) == [0]


def test_the_storage_version_is_that_of_the_files():
    files = (data_file("x", minor=2),)
    assert created(fragment(0, files=files)).data_format == ("lance", "2.2")
    with pytest.raises(InvalidArgumentError, match=r"expected 2\.1"):
        created(fragment(0, files=files), data_storage_version="2.1")
    with pytest.raises(InvalidArgumentError, match="unknown storage version 'stable'"):
        created(data_storage_version="stable")


def test_bases_are_declared_at_creation():
    base = BasePath(1, "/elsewhere", True)
    made = after(None, Overwrite((), SCHEMA, {"k": "1"}, (base,)))
    assert made.base_paths == (base,)
    assert (made.reader_flags, made.writer_flags) == (16, 16 | 8)
    assert made.config == {"k": "1"}


def test_only_an_overwrite_creates():
    with pytest.raises(InvalidArgumentError, match="only Overwrite creates"):
        after(None, Append((new(),)))


def test_the_writer_is_named_and_numbered_by_the_rules_it_follows():
    writer = writer_version()
    assert writer.library == "lance_ops"
    # Releases before 1.0 hold any library to their own past, in which those before 0.8.15 miscounted.
    assert not replace(writer, library="lance").miscounts
    assert not replace(writer, library="lance").misnames_files
    assert len([part for part in writer.version.split(".") if part.isdigit()]) == 3
    assert re.fullmatch(r"lance-ops\.[0-9A-Za-z.-]+", writer.build_metadata)
    assert (writer.version, writer.prerelease) == ("14.0.2", None)


# What every commit does


def test_the_transaction_is_in_the_manifest_and_named_by_it():
    current = created(fragment(0))
    done = transaction(Append((new(),)))
    made = build_manifest(current, done, ManifestOptions(NOW))
    assert made.transaction_file == done.file_name
    assert made.transaction is not None
    assert decode_transaction(made.transaction, path="x") == done


def test_time_never_stands_still():
    current = manifest(fragment(0)).replace(timestamp=NOW + timedelta(hours=1))
    made = after(current, ReserveFragments(1))
    assert made.timestamp > current.timestamp


def test_what_nobody_mentions_stays():
    current = created(fragment(0)).replace(
        config={"k": "1"},
        table_metadata={"t": "1"},
        branch="dev",
        unknown=b"\xf8\x07\x01",
        base_paths=(BasePath(1, "/x", True),),
        indices=(index("a_idx", {0}),),
    )
    for operation in (Append((new(),)), Delete((), (0,), ""), ReserveFragments(1)):
        made = after(current, operation)
        for name in ("config", "table_metadata", "branch", "unknown", "base_paths", "indices", "schema"):
            assert getattr(made, name) == getattr(current, name)
        assert made.writer_flags & 8
        assert made.reader_flags & 16


def test_fragments_lie_in_the_order_of_their_ids():
    unordered = manifest(fragment(5), fragment(2), max_fragment_id=9)
    assert ids(after(unordered, Append((new(),)))) == [2, 5, 10]


@pytest.mark.parametrize(
    ("files", "flags", "version"),
    [
        ((data_file("x"),), 0, "2.0"),
        ((data_file("x", minor=1),), 0, "2.1"),
        (None, 4, "2.2"),
        (None, 0, "0.1"),
    ],
)
def test_a_manifest_that_does_not_state_its_storage_version_gets_one(files, flags, version):
    there = () if files is None else (fragment(0, files=files),)
    old = manifest(*there, data_format=("", ""), reader_flags=flags, writer_flags=flags)
    assert after(old, ReserveFragments(1)).data_format == ("lance", version)
    assert after(manifest(version=9), Restore(1), restored=old).data_format == ("lance", version)


def test_ids_beyond_32_bits_are_refused():
    full = manifest(max_fragment_id=2**32 - 1)
    with pytest.raises(CorruptManifestError, match="32 bits"):
        after(full, Append((new(),)))


# Append, Delete, Overwrite


def test_ids_go_on_where_they_ever_were():
    current = manifest(fragment(0), max_fragment_id=7)
    assert ids(after(current, Append((new(), new())))) == [0, 8, 9]
    assert ids(after(current, Overwrite((fragment(0),), SCHEMA))) == [8]


def test_a_delete_changes_and_removes_fragments_and_sets_the_flag():
    current = created(fragment(0), fragment(1), fragment(2)).replace(indices=(index("a_idx", {0, 1}),))
    changed = current.fragments[1].replace(deletion_file=fragment(1, deleted=4).deletion_file)
    made = after(current, Delete((changed,), (0,), "a > 1"))
    assert [(f.id, f.num_rows) for f in made.fragments] == [(1, 6), (2, 10)]
    assert (made.reader_flags, made.writer_flags) == (1, 1)
    # As the peer leaves it: the id of a fragment that is gone never comes back.
    assert covered(made, "a_idx") == {0, 1}
    whole = after(made, Delete((), (1,), ""))
    assert (whole.reader_flags, whole.writer_flags) == (0, 0)


def test_an_overwrite_drops_indices_and_keeps_config():
    current = created(fragment(0)).replace(
        indices=(index("a_idx", {0}),), config={"a": "1", "b": "1"}, table_metadata={"t": "1"}
    )
    other = Schema.from_arrow(pa.schema([pa.field("a", pa.int8()), pa.field("b", pa.int8())], {"m": "2"}))
    files = (data_file("x", minor=1),)
    made = after(current, Overwrite((fragment(0, files=files),), other, {"b": "2"}))
    assert made.indices == ()
    assert made.config == {"a": "1", "b": "2"}
    assert made.table_metadata == {"t": "1"}
    assert made.schema == other
    assert made.data_format == ("lance", "2.1")


# Stable row ids


def sequences(made: Manifest) -> list[tuple[list[int], list[int], list[int]]]:
    return [
        (
            decode_row_ids(f.row_ids, rows=f.physical_rows).tolist(),
            decode_row_versions(f.created_at_versions, rows=f.physical_rows).tolist(),
            decode_row_versions(f.last_updated_at_versions, rows=f.physical_rows).tolist(),
        )
        for f in made.fragments
    ]


def test_new_rows_get_the_next_ids_and_their_version():
    made = created(fragment(0, 2), fragment(0, 3, name="g"), stable_row_ids=True)
    assert (made.reader_flags, made.writer_flags) == (2, 2)
    made = after(made, Append((new(2),)))
    assert made.next_row_id == 7
    assert sequences(made) == [
        ([0, 1], [1, 1], [1, 1]),
        ([2, 3, 4], [1, 1, 1], [1, 1, 1]),
        ([5, 6], [2, 2], [2, 2]),
    ]


def test_an_overwrite_goes_on_counting_row_ids():
    made = after(created(fragment(0, 2), stable_row_ids=True), Overwrite((fragment(0, 1),), SCHEMA))
    assert sequences(made) == [([2], [2], [2])]
    assert made.next_row_id == 3


def test_stable_row_ids_stay_when_the_last_row_is_gone():
    made = after(created(fragment(0, 2), stable_row_ids=True), Delete((), (0,), ""))
    assert (made.reader_flags, made.writer_flags) == (2, 2)
    assert sequences(after(made, Append((new(1),)))) == [([2], [3], [3])]


def test_rows_that_moved_keep_their_ids():
    moved = new(2, row_ids=encode_row_ids(np.array([1, 0], dtype=np.uint64)))
    made = after(created(fragment(0, 2), stable_row_ids=True), Append((moved, new(1))))
    assert [row_ids for row_ids, _, _ in sequences(made)] == [[0, 1], [1, 0], [2]]
    assert made.next_row_id == 3


# Reserve, Rewrite


def test_reserved_ids_are_the_last_ones():
    made = after(created(fragment(0), fragment(0, name="g")), ReserveFragments(3))
    assert made.max_fragment_id == 4
    assert list(reserved_ids(made, 3)) == [2, 3, 4]
    assert ids(after(made, Append((new(),)))) == [0, 1, 5]
    assert list(reserved_ids(after(created(), ReserveFragments(2)), 2)) == [0, 1]


def rewritten(current: Manifest, old: list[int], new: list[int], *remapped: RewrittenIndex) -> Manifest:
    olds = tuple(f for f in current.fragments if f.id in old)
    size = sum(f.num_rows for f in olds) // len(new)
    return after(current, Rewrite((RewriteGroup(olds, tuple(fragment(i, size) for i in new)),), remapped))


def test_rewritten_fragments_take_their_reserved_ids():
    made = rewritten(manifest(*(fragment(i) for i in range(4)), max_fragment_id=6), [1, 2], [5, 4])
    assert ids(made) == [0, 3, 4, 5]
    assert made.max_fragment_id == 6


def test_a_remapped_segment_moves_with_the_rows():
    segment = index("a_idx", {0, 1, 2})
    base = BasePath(1, "/source", True)
    current = manifest(
        *(fragment(i) for i in range(3)),
        max_fragment_id=6,
        indices=(replace(segment, base_id=1),),
        base_paths=(base,),
    )
    new = RewrittenIndex(segment.uuid, uuid.uuid4(), "/lance.table.BTreeIndexDetails", b"\x08\x01", 3)
    made = rewritten(current, [1, 2], [6], new)
    (moved,) = made.indices
    assert moved.uuid == new.new_uuid
    assert (moved.details, moved.index_version, moved.files) == (b"\x08\x01", 3, ())
    assert moved.fragment_ids == {0, 6}
    assert moved.base_id is None
    assert moved.dataset_version == segment.dataset_version


def test_a_segment_that_was_not_remapped_no_longer_answers_for_rewritten_rows():
    current = manifest(
        *(fragment(i) for i in range(3)),
        max_fragment_id=6,
        indices=(index("a_idx", {0, 1}), index("b_idx", {2}), index("old_idx", None)),
    )
    made = rewritten(current, [1, 2], [6])
    assert covered(made, "a_idx") == {0}
    assert covered(made, "b_idx") == set()
    assert covered(made, "old_idx") == set()


def test_segments_that_hold_row_ids_move_along_by_themselves():
    rows = [fragment(i, row_ids=encode_row_ids(np.arange(10, dtype=np.uint64) + 10 * i)) for i in range(3)]
    current = manifest(
        *rows,
        max_fragment_id=6,
        reader_flags=2,
        indices=(
            index("row_ids", {1, 2}, index_version=0),
            index("addresses", {1, 2}, index_version=1),
            index("partly", {0, 1}, index_version=0),
            index("zones", {1, 2}, type_url="/lance.table.ZoneMapIndexDetails"),
            index("unknown", {1, 2}, type_url="/somebody.else.Details"),
        ),
    )
    new = fragment(6, 20, row_ids=encode_row_ids(np.arange(10, 30, dtype=np.uint64)))
    made = after(current, Rewrite((RewriteGroup((rows[1], rows[2]), (new,)),)))
    assert covered(made, "row_ids") == {6}
    assert covered(made, "addresses") == set()
    assert covered(made, "partly") == {0}
    assert covered(made, "zones") == set()
    assert covered(made, "unknown") == set()


def test_a_deferred_remap_leaves_the_coverage_and_replaces_the_reuse_index():
    reuse = index("__lance_frag_reuse", {6})
    old_reuse = index("__lance_frag_reuse", {1})
    current = manifest(
        fragment(0), fragment(1), max_fragment_id=6, indices=(index("a_idx", {0, 1}), old_reuse)
    )
    operation = Rewrite((RewriteGroup(current.fragments, (fragment(6, 20),)),), (), reuse)
    made = after(current, operation)
    assert covered(made, "a_idx") == {0, 1}
    assert [i.uuid for i in made.indices if i.is_system] == [reuse.uuid]


def test_remaps_that_cannot_be_right_are_refused():
    partly, unknown = index("a_idx", {1}), index("b_idx", None)
    current = manifest(fragment(0), fragment(1), max_fragment_id=6, indices=(partly, unknown))
    for segment, message in (
        (partly, "only some"),
        (unknown, "is unknown"),
        (index("c", {1}), "do not exist"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            rewritten(current, [0, 1], [6], RewrittenIndex(segment.uuid, uuid.uuid4()))
    twice = RewrittenIndex(partly.uuid, uuid.uuid4())
    with pytest.raises(InvalidArgumentError, match="twice"):
        rewritten(current, [1], [6], twice, twice)


# CreateIndex


def test_segments_are_replaced_by_uuid():
    old, other = index("a_idx", {0}), index("a_idx", {1})
    current = manifest(fragment(0), fragment(1), fragment(2), indices=(old, other))
    new = index("a_idx", {0, 2})
    made = after(current, CreateIndex((new,), (old,)))
    assert [i.uuid for i in made.indices] == [other.uuid, new.uuid]


def test_coverage_is_limited_to_fragments_that_exist():
    current = manifest(fragment(0), max_fragment_id=9)
    assert covered(after(current, CreateIndex((index("a_idx", {0, 5, 9}),))), "a_idx") == {0}


def test_indices_that_would_find_rows_twice_or_not_at_all_are_refused():
    there = index("a_idx", {0})
    current = manifest(fragment(0), indices=(there,))
    for operation, message in (
        (CreateIndex((index("a_idx", {0}),)), "would cover the same fragments"),
        (CreateIndex((index("a_idx", {1}, fields=(1,)),)), "another column"),
        (CreateIndex((index("z_idx", {0}, fields=(8,)),)), "does not have"),
        (CreateIndex((there,)), "already"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            after(current, operation)


# Project, Merge, Restore, UpdateConfig


def test_dropping_a_column_drops_its_files_and_indices():
    files = (data_file("ab"), data_file("c", fields=(2,)))
    schema = Schema.from_arrow(pa.schema([("a", pa.int32()), ("b", pa.int32()), ("c", pa.int32())]))
    current = manifest(
        fragment(0, files=files),
        schema=replace(schema, metadata={"m": b"1"}),
        indices=(
            index("a_idx", {0}),
            index("c_idx", {0}, fields=(2,)),
            index("__lance_mem_wal", set(), fields=()),
        ),
    )
    made = after(current, Project(schema.project(["a"])))
    assert [file.path for file in made.fragments[0].files] == ["ab.lance"]
    assert {i.name for i in made.indices} == {"a_idx", "__lance_mem_wal"}
    assert made.schema.names == ("a",)
    assert made.schema.metadata == {"m": b"1"}


def test_a_merge_replaces_schema_and_fragments():
    current = manifest(fragment(0), fragment(1), indices=(index("a_idx", {0}),))
    wider = Schema.from_arrow(SCHEMA.to_arrow().append(pa.field("c", pa.int8())))
    more = current.fragments[0].replace(files=(*current.fragments[0].files, data_file("c", fields=(2,))))
    made = after(current, Merge((more, current.fragments[1]), wider))
    assert made.schema.names == ("a", "b", "c")
    assert [len(f.files) for f in made.fragments] == [2, 1]
    assert covered(made, "a_idx") == {0}


def test_a_restore_gives_back_the_content_and_no_ids():
    old = manifest(fragment(0), fragment(1), version=2, config={"k": "1"}, next_row_id=5)
    head = manifest(fragment(7, deleted=1), version=9, max_fragment_id=8, next_row_id=50, branch="dev")
    made = after(head, Restore(2), restored=old)
    assert made.version == 10
    assert ids(made) == [0, 1]
    assert made.config == {"k": "1"}
    assert made.max_fragment_id == 8
    assert made.next_row_id == 50
    assert made.branch == "dev"
    assert (made.reader_flags, made.writer_flags) == (0, 8)
    assert next_fragment_id(made) == 9


def test_a_restore_needs_the_manifest_of_its_version():
    with pytest.raises(InvalidArgumentError, match="version 2 is missing"):
        after(manifest(version=9), Restore(2), restored=manifest(version=3))


def test_config_and_metadata_are_merged_removed_and_replaced():
    current = manifest(
        fragment(0),
        config={"a": "1", "b": "1"},
        table_metadata={"t": "1"},
        schema=replace(SCHEMA, metadata={"m": b"1"}),
    )
    made = after(
        current,
        UpdateConfig(
            MapUpdate({"b": None, "c": "2"}),
            MapUpdate({"u": "2"}, replace=True),
            MapUpdate({"n": "2"}),
            {1: MapUpdate({"f": "3"})},
        ),
    )
    assert made.config == {"a": "1", "c": "2"}
    assert made.table_metadata == {"u": "2"}
    assert made.schema.metadata == {"m": b"1", "n": b"2"}
    assert made.schema.field("b").metadata == {"f": b"3"}
    assert made.schema.field("a").metadata == {}
    assert made.writer_flags == 8
    empty = after(made, UpdateConfig(MapUpdate({}, replace=True)))
    assert empty.config == {}
    assert empty.writer_flags == 0
