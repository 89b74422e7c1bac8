"""Groups of small fragments: what is put together, and that reading them as one changes no answer."""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.scan import small_fragments
from lance_ops.table.scan.small_fragments import FragmentGroup, find_groups
from tests.support.distant_store import DistantStore

VERSIONS = ("2.0", "2.1", "2.2")


def rows(count: int, seed: int) -> pa.Table:
    """Columns of many shapes, of which some are described differently from file to file."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-1000, 1000, count)
    some = rng.random(count) < (0.3 if seed % 3 else 0.0)
    words = [None if seed % 4 == 1 and value < 0 else f"word {value}" for value in numbers.tolist()]
    return pa.table(
        {
            "id": pa.array(seed * 10_000 + np.arange(count)),
            "number": pa.array(numbers),
            "nullable": pa.array(numbers, pa.int32(), mask=some),
            "flag": pa.array(numbers > 0),
            "constant": pa.array([7 if seed % 2 else None] * count, pa.int16()),
            "word": pa.array(words),
            "few": pa.array(["a", "b"] * count)[:count],
            "pair": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(2 * count, dtype=np.float32)), 2),
            "list": pa.array([[value] * (value % 3) for value in numbers.tolist()]),
            "struct": pa.StructArray.from_arrays([pa.array(numbers), pa.array(words)], names=["x", "y"]),
        }
    )


def write_many(path: Path, version: str, sizes: list[int]) -> pa.Table:
    """A dataset of one small fragment for each size, and its rows."""
    tables = [rows(count, seed) for seed, count in enumerate(sizes)]
    for number, table in enumerate(tables):
        lo.write_dataset(table, path, mode="append" if number else "create", data_storage_version=version)
    return pa.concat_tables(tables)


SIZES = [1, 7, 100, 100, 1000, 3, 8, 1025, 64, 65]


@pytest.mark.parametrize("version", VERSIONS)
def test_many_small_fragments_read_as_they_were_written(tmp_path: Path, version: str) -> None:
    expected = write_many(tmp_path / "t", version, SIZES)
    dataset = lo.dataset(tmp_path / "t")
    assert dataset.to_table().equals(expected)
    assert dataset.to_table(columns=["word", "number"]).equals(expected.select(["word", "number"]))
    assert pa.Table.from_batches(dataset.to_batches()).equals(expected)
    assert dataset.to_table(columns=[]).num_rows == len(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_filters_limits_and_counts_are_those_of_single_fragments(tmp_path: Path, version: str) -> None:
    expected = write_many(tmp_path / "t", version, SIZES)
    dataset = lo.dataset(tmp_path / "t")
    kept = expected.filter(pa.compute.field("number") > 500)
    assert dataset.to_table(filter="number > 500").equals(kept)
    assert dataset.to_table(filter="number > 5000").num_rows == 0
    assert dataset.count_rows("number > 500") == len(kept)
    assert dataset.to_table(filter="number > 500", limit=20, offset=15).equals(kept.slice(15, 20))
    assert dataset.to_table(limit=500, offset=150).equals(expected.slice(150, 500))
    addresses = dataset.to_table(columns=["number"], with_row_address=True)
    assert addresses.column("number").equals(expected.column("number"))
    assert addresses.column("_rowaddr").to_pylist() == [
        (number << 32) + row for number, size in enumerate(SIZES) for row in range(size)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_plain_columns_of_a_group_come_in_one_piece(tmp_path: Path, version: str) -> None:
    write_many(tmp_path / "t", version, [100] * 6)
    dataset = lo.dataset(tmp_path / "t")
    group = FragmentGroup(dataset, dataset.fragments, [0] * 6)
    table = group.fetch(dataset.lance_schema.project(["number", "pair"]), range(group.num_rows))
    assert table.num_rows == group.num_rows == 600
    assert table.column("number").num_chunks == 1


def test_fragments_of_other_files_stand_alone_and_deletions_do_not(tmp_path: Path) -> None:
    expected = write_many(tmp_path / "t", "2.2", [10] * 6)
    lo.delete(tmp_path / "t", "id = 20000")
    dataset = lo.dataset(tmp_path / "t")
    fragments = list(dataset.fragments)
    assert [len(group) for group in find_groups(fragments, lambda fragment: fragment)] == [6]
    fragments[2] = fragments[2].replace(files=fragments[2].files * 2)
    assert [len(group) for group in find_groups(fragments, lambda fragment: fragment)] == [2, 1, 3]
    left = pa.concat_tables([expected.slice(0, 20), expected.slice(21)])
    assert dataset.to_table().equals(left)
    assert dataset.to_table(filter="number < 0").equals(left.filter(pa.compute.field("number") < 0))


ROW_COLUMNS = ("_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version")
FILTERS = (None, "number > 300", "number > 5000", "_rowaddr % 3 = 1", "_rowid > 40", "word is null or flag")


def one_by_one(dataset: lo.Dataset, columns: Sequence[str] | None, condition: str | None) -> pa.Table:
    """The same scan, one fragment after the other."""
    scans = [
        dataset.to_table(columns=columns, filter=condition, fragments=[fragment.id])
        for fragment in dataset.fragments
    ]
    return pa.concat_tables(scans)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 9, 64, 70]), min_size=2, max_size=9),
    gone=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 69)), max_size=12),
    stable=st.booleans(),
    version=st.sampled_from(VERSIONS),
    distant=st.booleans(),
    extra=st.lists(st.sampled_from(ROW_COLUMNS), unique=True),
    names=st.sampled_from([None, (), ("word", "id"), ("list", "struct")]),
    condition=st.sampled_from(FILTERS),
)
def test_groups_answer_as_their_fragments_do_one_by_one(
    sizes: list[int],
    gone: list[tuple[int, int]],
    stable: bool,
    version: str,
    distant: bool,
    extra: list[str],
    names: tuple[str, ...] | None,
    condition: str | None,
) -> None:
    uri = f"memory://{uuid.uuid4()}"
    for number, size in enumerate(sizes):
        lo.write_dataset(
            rows(size, number),
            uri,
            mode="append" if number else "create",
            data_storage_version=version,
            enable_stable_row_ids=stable,
        )
    if gone:
        lo.delete(uri, f"id in ({', '.join(str(10_000 * number + row) for number, row in gone)})")
    dataset = Dataset.open(DistantStore(open_store(uri)) if distant else uri)
    columns = [*(dataset.schema.names if names is None else names), *extra]
    expected = one_by_one(dataset, columns, condition)
    assert dataset.to_table(columns=columns, filter=condition).equals(expected)
    assert pa.Table.from_batches(
        dataset.to_batches(columns=columns, filter=condition), expected.schema
    ).equals(expected)
    assert dataset.count_rows(condition) == expected.num_rows
    assert dataset.to_table(columns=columns, filter=condition, offset=7, limit=20).equals(
        expected.slice(7, 20)
    )


def test_columns_of_several_files_are_read_together_and_missing_ones_are_null(tmp_path: Path) -> None:
    import lance

    path = tmp_path / "t"
    for number in range(5):
        lance.write_dataset(rows(20, number), str(path), mode="append", data_storage_version="2.1")
    peer = lance.dataset(str(path))
    peer.add_columns({"twice": "number * 2"})
    peer.add_columns(pa.field("later", pa.int32()))
    peer.drop_columns(["word"])
    peer.delete("id % 7 = 2")
    for number in range(5, 8):
        more = lance.dataset(str(path)).to_table(limit=number)
        lance.write_dataset(more, str(path), mode="append")
    dataset = lo.dataset(path)
    groups = [len(group) for group in find_groups(dataset.fragments, lambda fragment: fragment)]
    assert groups == [5, 3]
    for columns in (None, ["twice"], ["later", "id"], ["list", "twice", "_rowid"]):
        for condition in (None, "twice > 100", "later is null and flag"):
            expected = lance.dataset(str(path)).to_table(columns=columns, filter=condition)
            assert dataset.to_table(columns=columns, filter=condition).equals(expected)


def test_a_column_of_more_rows_than_its_file_lends_none_to_its_neighbour(tmp_path: Path) -> None:
    from lance_ops.file.container import read as container

    write_many(tmp_path / "t", "2.2", [10] * 3)
    dataset = lo.dataset(tmp_path / "t")
    expected = dataset.to_table(columns=["id", "number"])
    names = [fragment.files[0].path for fragment in dataset.fragments]
    file = tmp_path / "t" / "data" / names[1]
    data = file.read_bytes()
    footer = container.decode_footer(data, len(data), "")
    table = container.decode_table(data[footer.column_table : footer.global_table], len(data), "column", "")
    # Of the first column: the description says one row more than there is, in as many bytes.
    position, size = table[0]
    described = data[position : position + size]
    (start,) = [at for at in range(size) if described[at : at + 2] == bytes([0x18, 10])]
    changed = bytearray(data)
    changed[position + start + 1] = 11
    file.write_bytes(changed)
    with pytest.raises(LanceOpsError) as raised:
        lo.dataset(tmp_path / "t").to_table(columns=["id", "number"])
    assert names[1] in str(raised.value)
    rest = lo.dataset(tmp_path / "t").to_table(columns=["number"])
    assert rest.equals(expected.select(["number"]))


def test_candidates_of_an_index_are_read_together(tmp_path: Path) -> None:
    expected = write_many(tmp_path / "t", "2.2", [50] * 8)
    lo.create_index(tmp_path / "t", "number", "BTREE")
    lo.delete(tmp_path / "t", "id % 10 = 3")
    more = rows(20, 8)
    lo.append(tmp_path / "t", more)
    left = pa.concat_tables(
        [expected.filter(pa.array([value % 10 != 3 for value in expected["id"].to_pylist()])), more]
    )
    dataset = lo.dataset(tmp_path / "t")
    for condition, mask in (
        ("number < -300", pa.compute.field("number") < -300),
        ("number > 100 and flag", pa.compute.field("number") > 100),
        ("number > 100 and few = 'a'", (pa.compute.field("number") > 100) & (pa.compute.field("few") == "a")),
    ):
        assert dataset.to_table(filter=condition).equals(left.filter(mask))
        assert dataset.count_rows(condition) == left.filter(mask).num_rows


def test_the_peer_sees_the_same_row_ids_after_deletions(tmp_path: Path) -> None:
    import lance

    for stable in (False, True):
        path = tmp_path / f"{stable}"
        for number in range(6):
            lance.write_dataset(
                rows(40, number).select(["id", "number", "word"]),
                str(path),
                mode="append" if number else "create",
                data_storage_version="2.2",
                enable_stable_row_ids=stable,
            )
        lance.dataset(str(path)).delete("number > 400")
        for condition in (None, "number < 0", "_rowid > 90"):
            wanted = {"filter": condition, "with_row_id": True, "with_row_address": True}
            expected = lance.dataset(str(path)).to_table(**wanted)
            assert lo.dataset(path).to_table(**wanted).equals(expected)


def test_small_files_of_a_store_with_latency_are_read_side_by_side() -> None:
    uri = f"memory://{uuid.uuid4()}"
    expected = pa.table({"id": range(400)})
    lo.write_dataset(expected, uri, max_rows_per_file=10)
    lo.delete(uri, "id % 20 = 5")
    store = DistantStore(open_store(uri), wanted=16)
    table = Dataset.open(store).to_table()
    assert table["id"].to_pylist() == [number for number in range(400) if number % 20 != 5]
    assert store.most >= 16
    # Each file once, and none twice.
    for folder, count in (("data", 40), ("_deletions", 20)):
        assert len(store.paths(folder)) == len(set(store.paths(folder))) == count


def test_blobs_are_not_read_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    for _ in range(3):
        lo.append(
            tmp_path / "t", pa.table({"b": [b"x" * 100, None]}, schema=schema), data_storage_version="2.1"
        )
    monkeypatch.delattr(small_fragments, "read_joined")
    assert lo.dataset(tmp_path / "t").to_table().num_rows == 6


def test_groups_are_bounded_by_rows(tmp_path: Path) -> None:
    write_many(tmp_path / "t", "2.2", [10] * 5)
    fragments = lo.dataset(tmp_path / "t").fragments
    assert [len(group) for group in find_groups(fragments, lambda fragment: fragment, 25)] == [2, 2, 1]
    assert [len(group) for group in find_groups(fragments, lambda _: None)] == [1] * 5


@pytest.mark.parametrize("version", VERSIONS)
def test_compaction_joins_small_fragments(tmp_path: Path, version: str) -> None:
    expected = write_many(tmp_path / "t", version, SIZES)
    lo.compact(tmp_path / "t")
    dataset = lo.dataset(tmp_path / "t")
    assert len(dataset.fragments) == 1
    assert dataset.to_table().equals(expected)


def _truncated(data: bytes) -> bytes:
    return data[:-1]


def _without_mark(data: bytes) -> bytes:
    return data[:-4] + b"XXXX"


def _other_rows(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [_truncated, _without_mark, _other_rows])
def test_a_damaged_file_of_a_group_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    write_many(tmp_path / "t", "2.2", [10] * 5)
    dataset = lo.dataset(tmp_path / "t")
    name = dataset.fragments[3].files[0].path
    file = tmp_path / "t" / "data" / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(LanceOpsError) as raised:
        dataset.to_table()
    assert name in str(raised.value)


def test_a_damaged_page_of_a_group_is_named(tmp_path: Path) -> None:
    write_many(tmp_path / "t", "2.2", [10] * 5)
    dataset = lo.dataset(tmp_path / "t")
    name = dataset.fragments[3].files[0].path
    file = tmp_path / "t" / "data" / name
    # The table of the chunks of the first page.
    file.write_bytes(b"\xff" * 8 + file.read_bytes()[8:])
    with pytest.raises(LanceOpsError, match="column 0, page 0") as raised:
        dataset.to_table()
    assert name in str(raised.value)


def test_a_damaged_page_is_named_where_all_files_are_described_by_the_same_bytes(tmp_path: Path) -> None:
    for _ in range(5):
        lo.append(tmp_path / "t", rows(10, 1), data_storage_version="2.2")
    dataset = lo.dataset(tmp_path / "t")
    name = dataset.fragments[3].files[0].path
    file = tmp_path / "t" / "data" / name
    file.write_bytes(b"\xff" * 8 + file.read_bytes()[8:])
    with pytest.raises(LanceOpsError, match="column 0, page 0") as raised:
        dataset.to_table()
    assert name in str(raised.value)


@pytest.mark.parametrize("version", VERSIONS)
def test_damage_anywhere_gives_the_answer_of_reading_one_by_one(tmp_path: Path, version: str) -> None:
    write_many(tmp_path / "t", version, [20] * 3)
    dataset = lo.dataset(tmp_path / "t")
    file = tmp_path / "t" / "data" / dataset.fragments[1].files[0].path
    sound = file.read_bytes()
    rng = np.random.default_rng(5)
    for position in rng.integers(0, len(sound), 40).tolist():
        damaged = bytearray(sound)
        damaged[position] ^= 1 << int(rng.integers(0, 8))
        file.write_bytes(damaged)
        together = _answer(lambda: lo.dataset(tmp_path / "t").to_table())
        alone = _answer(
            lambda: pa.concat_tables(
                lo.dataset(tmp_path / "t").to_table(fragments=[number]) for number in range(3)
            )
        )
        assert (together is None) == (alone is None)
        assert together is None or alone is None or together.equals(alone)


def _answer(read: Callable[[], pa.Table]) -> pa.Table | None:
    try:
        return read()
    except LanceOpsError:
        return None
