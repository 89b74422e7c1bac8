"""Random nested types, files, pages, deletions and rules."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.page_copy import CopySource, MergeRule, copy_pages
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.storage import open_store
from tests.support.arrays import DICTIONARY_TYPES, FLAT_TYPES, VARIABLE_TYPES, random_array
from tests.support.fake_s3 import FakeS3
from tests.support.page_copy import keep

FIXED = st.sampled_from(FLAT_TYPES)
LEAVES = st.one_of(
    FIXED,
    st.sampled_from([*VARIABLE_TYPES, *DICTIONARY_TYPES, pa.null()]),
    st.builds(pa.list_, FIXED, st.integers(1, 4)),
)


def extend(inner):
    return st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.large_list, inner),
        st.builds(
            lambda members: pa.struct([(f"m{number}", member) for number, member in enumerate(members)]),
            st.lists(inner, min_size=1, max_size=3),
        ),
    )


TYPES = st.recursive(LEAVES, extend, max_leaves=5)


def write(store, path, table, version, page_bytes, batch_rows):
    schema = Schema.from_arrow(table.schema)
    with FileWriter(store, path, schema, version=version, page_bytes=page_bytes) as writer:
        for batch in table.to_batches(max_chunksize=batch_rows):
            writer.write(batch)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.lists(TYPES, min_size=1, max_size=3),
    rows=st.lists(st.integers(0, 200), min_size=1, max_size=4),
    nulls=st.sampled_from([0.0, 0.1, 0.9, 1.0]),
    deleted=st.sampled_from([0.0, 0.02, 0.3, 0.97, 1.0]),
    version=st.sampled_from(["2.0", "2.1", "2.2"]),
    page_bytes=st.sampled_from([200, 2000, 1 << 20]),
    rule=st.builds(
        MergeRule,
        join_bytes=st.sampled_from([0, 500, 1 << 20]),
        small_bytes=st.sampled_from([0, 300, 1 << 20]),
        run_bytes=st.sampled_from([1, 1000, 1 << 20]),
        wave_bytes=st.sampled_from([1, 1000, 1 << 20]),
    ),
    seed=st.integers(0, 2**16),
)
def test_a_copy_holds_the_rows_that_stay(kinds, rows, nulls, deleted, version, page_bytes, rule, seed):
    store = open_store("memory://page-copies")
    rng = np.random.default_rng(seed)
    sources, expected = [], []
    for number, count in enumerate(rows):
        table = pa.table(
            {
                f"c{n}": random_array(kind, count, nulls=nulls, seed=seed + 10 * number + n)
                for n, kind in enumerate(kinds)
            }
        )
        try:
            check_writable(table.schema, version)
        except UnsupportedTypeError:
            return
        write(store, f"{number}", table, version, page_bytes, 1 + seed % 100)
        gone = np.flatnonzero(rng.random(count) < deleted)
        sources.append(CopySource(store, f"{number}", deleted=gone))
        expected += keep(table.to_pylist(), gone)
    written = copy_pages(store, "copy", sources, rule=rule)
    assert written.num_rows == len(expected)
    reader = FileReader.open(store, "copy", size=written.size_bytes)
    found = reader.read_table()
    found.validate(full=True)
    assert repr(found.to_pylist()) == repr(expected)
    picked = np.flatnonzero(rng.random(len(expected)) < 0.1)
    assert repr(reader.take(picked).to_pylist()) == repr([expected[number] for number in picked])
    # What was copied can be copied again.
    again = copy_pages(store, "again", [CopySource(store, "copy")], rule=rule)
    assert again.num_rows == len(expected)
    assert repr(FileReader.open(store, "again").read_table().to_pylist()) == repr(expected)


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_object_stores_are_copied_from_and_to(tmp_path, version):
    table = pa.table({"n": np.arange(3000), "v": random_array(pa.list_(pa.float32(), 16), 3000, nulls=0.0)})
    with FakeS3() as server:
        remote = open_store("s3://bucket/some/root", server.options)
        local = open_store(tmp_path, {"fsync": "false"})
        write(remote, "a", table, version, 1 << 20, 1000)
        write(local, "b", table, version, 1 << 20, 1000)
        for target in (remote, local):
            sources = [CopySource(remote, "a", deleted=np.array([5])), CopySource(local, "b")]
            copy_pages(target, "copy", sources)
            found = FileReader.open(target, "copy").read_table()
            assert found.equals(pa.concat_tables([table.slice(0, 5), table.slice(6), table]))
