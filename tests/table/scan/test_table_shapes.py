"""Tables of medium fragments: mapped next to each other and read in batches, they are what pylance reads."""

import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.table.scan import run, small_fragments
from lance_ops.table.scan.small_fragments import TINY_BYTES, find_groups
from tests.support.arrays import random_array

ROWS, FRAGMENT_ROWS = 9_000, 2_000
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
TYPES = [
    *[pa.int64()] * 6,
    *[pa.float64()] * 4,
    pa.string(),
    pa.bool_(),
    pa.list_(pa.float32(), 48),
    STRUCT,
    pa.list_(pa.int32()),
    pa.list_(STRUCT),
]
CONDITIONS = (None, "key = 7", "key < 400", "key >= 0", "key = 5000", "word like '%3 of%'")


def make_table() -> pa.Table:
    columns: dict[str, pa.Array] = {
        "key": pa.array(np.random.default_rng(1).integers(0, 500, ROWS)),
        "word": pa.array([f"the {number % 97}th of {number // 700} texts" for number in range(ROWS)]),
        "few": pa.array([f"{number % 3} of {number // 2_000}" for number in range(ROWS)]),
    }
    for number, kind in enumerate(TYPES):
        columns[f"c{number}"] = random_array(kind, ROWS, nulls=0.2 if number % 3 == 1 else 0.0, seed=number)
    return pa.table(columns)


TABLE = make_table()


@pytest.fixture(scope="module", params=[("2.0", False), ("2.1", True), ("2.2", False)], ids=str)
def paths(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The same rows without and with deleted ones."""
    version, stable = request.param
    found = []
    for condition in ("", "key % 50 = 3"):
        path = str(tmp_path_factory.mktemp("shapes") / "t")
        lance.write_dataset(
            TABLE,
            path,
            max_rows_per_file=FRAGMENT_ROWS,
            data_storage_version=version,
            enable_stable_row_ids=stable,
        )
        if condition:
            lance.dataset(path).delete(condition)
        found.append(path)
    return found


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_scans_and_takes_are_those_of_pylance(paths: list[str], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(paths))
    ours, peer = lo.dataset(path), lance.dataset(path)
    assert all(file.size_bytes > TINY_BYTES for one in ours.fragments for file in one.files)
    names = data.draw(st.none() | st.lists(st.sampled_from(TABLE.column_names), unique=True, min_size=1))
    condition = data.draw(st.sampled_from(CONDITIONS))
    ids = data.draw(st.booleans())
    wanted = {"columns": names, "filter": condition, "with_row_id": ids}
    expected = peer.to_table(**wanted)
    assert ours.to_table(**wanted).equals(expected)
    batches = ours.to_batches(columns=names, filter=condition, with_row_id=ids)
    assert pa.Table.from_batches(batches, expected.schema).equals(expected)
    assert ours.count_rows(condition) == expected.num_rows
    limit = data.draw(st.sampled_from([1, 10, 2_500]))
    assert ours.to_table(**wanted, limit=limit, offset=3).equals(expected.slice(3, limit))
    count = data.draw(st.sampled_from([1, 40, 900]))
    rows = np.random.default_rng(count).choice(peer.count_rows(), count, replace=False).tolist()
    assert ours.take(rows, columns=names).equals(peer.take(rows, columns=names))


@pytest.mark.parametrize("most", [1, 100_000, 1_000_000])
def test_rows_of_unbounded_size_are_read_in_parts(
    paths: list[str], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    expected = lance.dataset(paths[1]).to_table()
    some = lance.dataset(paths[1]).to_table(filter="key < 400", with_row_id=True)
    monkeypatch.setattr(run, "_most_decoded", lambda *_: most)
    monkeypatch.setattr(run, "_FEW_ROWS", 0)
    assert lo.dataset(paths[1]).to_table().equals(expected)
    assert lo.dataset(paths[1]).to_table(filter="key < 400", with_row_id=True).equals(some)
    assert pa.Table.from_batches(lo.dataset(paths[1]).to_batches()).equals(expected)


def test_the_first_group_is_small_where_its_rows_are_waited_for(paths: list[str]) -> None:
    fragments = [*lo.dataset(paths[0]).fragments] * 8
    size = fragments[0].data_bytes
    groups = find_groups(fragments, lambda one: one, most_bytes=9 * size, first_bytes=int(1.5 * size))
    lengths = [len(group) for group in groups]
    assert lengths[0] == 1
    assert lengths[-2] >= 8
    assert lengths[:-1] == sorted(lengths[:-1])


def test_files_that_are_not_mapped_are_read_in_ranges(tmp_path: Path, paths: list[str]) -> None:
    options = {"memory_map": "false"}
    dataset = lo.dataset(paths[1], storage_options=options)
    expected = lance.dataset(paths[1]).to_table()
    assert dataset.to_table().equals(expected)
    assert dataset.to_table(["c3"], "key < 9").equals(
        lance.dataset(paths[1]).to_table(columns=["c3"], filter="key < 9")
    )
    assert dataset.take([5, 4_000, 8_000]).equals(lance.dataset(paths[1]).take([5, 4_000, 8_000]))


@pytest.mark.parametrize("most", [0, 64 << 20])
def test_deletes_and_compactions_leave_the_other_rows(
    tmp_path: Path, paths: list[str], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(small_fragments, "_MOST_DECODED", most)
    copy = tmp_path / "t"
    shutil.copytree(paths[1], copy)
    expected = lance.dataset(paths[1]).to_table(filter="key >= 9")
    lo.delete(copy, "key < 9")
    assert lance.dataset(str(copy)).to_table().equals(expected)
    lo.compact(copy)
    assert lance.dataset(str(copy)).to_table().equals(expected)
