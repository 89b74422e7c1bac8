"""Tables of storage version 2.3: operations of ours beside those of the peer, which reads the same rows."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from tests.support.peer_panics import panics_as_errors

pytestmark = pytest.mark.peer

SPARSE = {"lance-encoding:structural-encoding": "sparse"}


def rows(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    vectors = np.random.default_rng(first).random((last - first) * 4, "f4")
    columns = {
        "x": pa.array(numbers, pa.int64()),
        "s": pa.array([f"t{n}" if n % 7 else None for n in numbers]),
        "l": pa.array([None if n % 5 == 0 else list(range(n % 4)) for n in numbers], pa.list_(pa.int32())),
        "st": pa.array(
            [{"a": n, "b": [str(n)] * (n % 3)} if n % 6 else None for n in numbers],
            pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        ),
        "m": pa.array([[("k", n)] * (n % 3) for n in numbers], pa.map_(pa.string(), pa.int64())),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
        "d": pa.array([f"c{n % 5}" for n in numbers]).dictionary_encode(),
        "z": pa.nulls(last - first, pa.int32()),
        "k": pa.array([7] * (last - first), pa.int16()),
    }
    fields = [
        pa.field(name, array.type, metadata=SPARSE if name in ("l", "st") else None)
        for name, array in columns.items()
    ]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


class Twins:
    """A table as both libraries see it."""

    def __init__(self, uri: Path) -> None:
        self.uri = str(uri)

    def check(self, version: str = "2.3") -> None:
        """Compare rows, single rows, filters, counts and projections; the files are sound, of a version."""
        peer, ours = lance.dataset(self.uri), lo.dataset(self.uri)
        with panics_as_errors():
            expected = peer.to_table()
        assert repr(ours.to_table().to_pylist()) == repr(expected.to_pylist())
        count = peer.count_rows()
        assert ours.count_rows() == count
        some = list(range(0, count, 17))
        assert repr(ours.take(some).to_pylist()) == repr(peer.take(some).to_pylist())
        assert ours.to_table(["st.a"], limit=9).to_pylist() == peer.to_table(["st.a"], limit=9).to_pylist()
        for condition in ("x > 100 and k = 7", "s IS NULL", "st.a % 3 = 0", "z IS NULL"):
            found = ours.to_table(["x"], condition)["x"].to_pylist()
            assert sorted(found) == sorted(peer.to_table(["x"], condition)["x"].to_pylist())
        batches = list(ours.to_batches(batch_size=31))
        assert sum(batch.num_rows for batch in batches) == count
        result = lo.fsck(self.uri, deep=True)
        assert result.ok
        assert not result.findings
        files = [file for fragment in peer.get_fragments() for file in fragment.data_files()]
        assert {f"{file.file_major_version}.{file.file_minor_version}" for file in files} == {version}


@pytest.mark.parametrize("stable", [False, True])
def test_every_operation_keeps_the_version(tmp_path: Path, stable: bool) -> None:
    twins = Twins(tmp_path / "t")
    uri = twins.uri
    options = {"data_storage_version": "next", "enable_stable_row_ids": stable}
    lance.write_dataset(rows(0, 150), uri, max_rows_per_file=60, **options)
    twins.check()
    lo.append(uri, rows(150, 180))
    lance.write_dataset(rows(180, 200), uri, mode="append")
    lo.delete(uri, "x % 10 = 3")
    twins.check()
    lo.update(uri, {"s": "'u'"}, "x < 20")
    lo.merge_insert(uri, rows(190, 220), on="x", when_matched="update_all", when_not_matched="insert_all")
    lo.add_columns(uri, {"y": "x * 2"})
    twins.check()
    lo.create_index(uri, "x", "BTREE")
    lo.create_index(uri, "s", "BITMAP")
    twins.check()
    assert lo.compact(uri, target_rows_per_fragment=1000).version
    assert len(lo.dataset(uri).fragments) == 1
    twins.check()
    lance.dataset(uri).delete("x = 60")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=5000)
    lo.optimize_indices(uri)
    twins.check()
    dataset = lo.dataset(uri)
    assert dataset.data_storage_version == lance.dataset(uri).data_storage_version == "2.3"


def test_tables_move_to_the_version_and_back(tmp_path: Path) -> None:
    twins = Twins(tmp_path / "t")
    lo.write_dataset(rows(0, 100), twins.uri, data_storage_version="2.2", max_rows_per_file=40)
    lo.compact(twins.uri, data_storage_version="next", target_rows_per_fragment=1000)
    twins.check()
    lo.compact(twins.uri, data_storage_version="2.2", target_rows_per_fragment=1000)
    twins.check("2.2")


def test_new_tables_are_read_by_the_peer(tmp_path: Path) -> None:
    twins = Twins(tmp_path / "t")
    lo.write_dataset(rows(0, 100), twins.uri, data_storage_version="2.3")
    twins.check()
