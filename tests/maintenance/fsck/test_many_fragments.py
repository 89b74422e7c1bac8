"""Checks of many fragments find in columns what they find in objects: in whatever manifests may contain."""

from dataclasses import replace
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from lance_ops.file.schema.model import Schema
from lance_ops.maintenance.fsck.files import check_files, count_promised_files
from lance_ops.maintenance.fsck.fragments import check_fragments
from lance_ops.pb import file_pb2
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.fragments.fragment_list import FragmentTuple
from tests.support.interleaving import Snapshot
from tests.table.manifest.fragments.test_fragment_list import FRAGMENTS, listed

SCHEMA = Schema.from_protos(
    [
        file_pb2.Field(name="a", id=0, parent_id=-1, logical_type="int64", nullable=True),
        file_pb2.Field(name="b", id=1, parent_id=-1, logical_type="int64", nullable=False),
    ],
    {},
)


def plain(fragments):
    """Fragments as most tables have them, with files of names that occur in several."""
    fields = [((0, 1), (0, 1)), ((1,), (0,)), ((0, 1), (0, 0)), ((0,), (0,)), ((0, 1), (0,))]
    names = st.sampled_from([f"{number:04}.lance" for number in range(20)])

    def shaped(chosen):
        found = []
        for fragment, (name, (ids, columns), size) in zip(fragments, chosen, strict=True):
            if not fragment.files:
                found.append(fragment)
                continue
            file = replace(
                fragment.files[0],
                path=name,
                fields=ids,
                column_indices=columns,
                size_bytes=size,
                base_id=None,
                unknown=b"",
            )
            found.append(replace(fragment, files=(file,), unknown=b"", _wire=None))
        return found

    rows = st.tuples(names, st.sampled_from(fields), st.sampled_from([0, 3, 5]))
    return st.lists(rows, min_size=len(fragments), max_size=len(fragments)).map(shaped)


def dataset_of(fragments, store=None):
    return SimpleNamespace(
        manifest=SimpleNamespace(fragments=fragments),
        lance_schema=SCHEMA,
        location=SimpleNamespace(path="_versions/1.manifest"),
        bases=None if store is None else Bases(store, ()),
        store=store,
        indices=(),
    )


ANY = st.one_of(FRAGMENTS, FRAGMENTS.flatmap(plain))


@given(ANY)
def test_columns_and_files_of_fragments(fragments):
    expected = list(check_fragments(dataset_of(FragmentTuple(fragments))))
    assert list(check_fragments(dataset_of(listed(fragments)))) == expected


@given(ANY, st.sets(st.integers(0, 19)))
def test_files_that_are_missing_or_of_another_size(fragments, present):
    store = MemoryStore("memory://fsck/many")
    try:
        for number in present:
            store.put(f"data/{number:04}.lance", b"12345"[: 3 + number % 3])
        few, many = dataset_of(FragmentTuple(fragments), store), dataset_of(listed(fragments), store)
        assert list(check_files(many)) == list(check_files(few))
        assert count_promised_files(many) == count_promised_files(few)
    finally:
        Snapshot.drop(store)
