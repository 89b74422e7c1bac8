"""Storage version 2.0 with random nested schemas, slices and batch sizes."""

from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_ops.file.reader import FileReader
from lance_ops.file.schema import Schema
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.storage import open_store
from tests.support.arrays import DICTIONARY_TYPES, FLAT_TYPES, VARIABLE_TYPES, random_array

FIXED = st.sampled_from(FLAT_TYPES)
LEAVES = st.one_of(
    FIXED,
    st.sampled_from([*VARIABLE_TYPES, *DICTIONARY_TYPES, pa.null()]),
    st.builds(pa.list_, FIXED, st.integers(1, 4)),
)


def extend(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.large_list, inner),
        st.builds(
            lambda members: pa.struct([(f"m{number}", member) for number, member in enumerate(members)]),
            st.lists(inner, min_size=1, max_size=3),
        ),
    )


TYPES = st.recursive(LEAVES, extend, max_leaves=6)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    types = draw(st.lists(TYPES, min_size=1, max_size=4))
    length = draw(st.integers(0, 300))
    nulls = draw(st.sampled_from([0.0, 0.1, 0.9, 1.0]))
    seed = draw(st.integers(0, 2**16))
    columns = [
        random_array(kind, length, nulls=nulls, seed=seed + number) for number, kind in enumerate(types)
    ]
    return pa.table({f"c{number}": column for number, column in enumerate(columns)})


def same(found: pa.Table, expected: pa.Table) -> bool:
    return found.schema.equals(expected.schema) and repr(found.to_pylist()) == repr(expected.to_pylist())


@settings(max_examples=60, deadline=None)
@given(
    table=tables(),
    batch_rows=st.integers(1, 100),
    page_bytes=st.sampled_from([64, 1000, 1 << 20]),
    bounds=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_what_is_written_is_read_back_whole_in_ranges_and_row_by_row(
    table: pa.Table, batch_rows: int, page_bytes: int, bounds: tuple[float, float]
) -> None:
    store = open_store("memory://properties")
    check_writable(table.schema, "2.0")
    with FileWriter(store, "a.lance", Schema.from_arrow(table.schema), page_bytes=page_bytes) as writer:
        for batch in table.to_batches(max_chunksize=batch_rows):
            writer.write(batch)
    reader = FileReader.open(store, "a.lance", size=writer.finish().size_bytes)
    found = reader.read_table()
    found.validate(full=True)
    assert same(found, table)
    start, stop = sorted(int(bound * table.num_rows) for bound in bounds)
    assert same(reader.read_table(start=start, stop=stop), table.slice(start, stop - start))
    rows = np.arange(start, table.num_rows, 3)
    assert same(reader.take(rows), table.take(rows))
    batches = list(reader.iter_batches(batch_rows=batch_rows, start=start))
    assert same(pa.Table.from_batches(batches, table.schema), table.slice(start))


@pytest.mark.peer
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), page_bytes=st.sampled_from([500, 1 << 20]))
def test_the_peer_reads_random_nested_schemas(table: pa.Table, page_bytes: int, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    with FileWriter(store, "a.lance", Schema.from_arrow(table.schema), page_bytes=page_bytes) as writer:
        writer.write(table)
    assert same(lance.file.LanceFileReader(str(tmp_path / "a.lance")).read_all().to_table(), table)
