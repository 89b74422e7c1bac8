"""Compaction of columns: fewer files, the same rows, addresses, indices and deletions."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.blob import blob_field

import lance_ops as lo
from tests.maintenance.column_files.tables import content, evolved, files_of_fragments
from tests.support.overlays import ALLOWED, lay


def everything(uri: str) -> pa.Table:
    return lance.dataset(uri).to_table(with_row_id=True, with_row_address=True)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row ids"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_files_become_one_and_nothing_else_changes(tmp_path: Path, version: str, stable: bool):
    uri = evolved(tmp_path / "t", version=version, stable_row_ids=stable)
    lance.dataset(uri).drop_columns(["st.b.c"])
    before, rows = everything(uri), content(uri)
    indices = lo.dataset(uri).indices
    old = lo.dataset(uri)
    plan = lo.compact_columns(uri, dry_run=True)
    assert (plan.files_before, plan.files_after) == (20, 4)
    assert "20 data files of fragments 0-3 become 4" in str(plan)
    done = lo.compact_columns(uri)
    assert files_of_fragments(uri) == [1] * 4
    assert everything(uri).equals(before)
    assert content(uri) == rows
    new = lo.dataset(uri)
    assert new.indices == indices
    assert new.version == old.version + 1
    for one, other in zip(old.fragments, new.fragments, strict=True):
        assert other.replace(files=one.files) == one
    assert abs(done.bytes_written - plan.bytes_written) < 0.1 * plan.bytes_written + 8192
    # 60 random bytes a row were in the dropped column.
    assert done.bytes_freed > 55_000 or version == "2.0"
    assert lance.dataset(uri).to_table(filter="id = 777").num_rows == 1
    lance.dataset(uri).validate()
    assert lo.fsck(uri).ok
    assert not lo.compact_columns(uri).changed


def test_the_data_version_stays_and_a_change_feed_has_no_rows(tmp_path: Path):
    uri = evolved(tmp_path / "t")
    start = lo.dataset(uri)
    lo.compact_columns(uri)
    assert lo.dataset(uri).data_version == start.data_version
    lo.append(uri, lo.dataset(uri).to_table().slice(0, 3))
    lo.delete(uri, "id = 500")
    counts = lo.diff(uri, start.version)
    assert (counts.inserted, counts.deleted) == (3, 1)


def test_dropped_columns_of_a_lone_file_are_freed(tmp_path: Path):
    uri = str(tmp_path / "t")
    lo.append(
        uri, pa.table({"id": range(1000), "fat": [b"x" * 5 + bytes([i % 251]) * 400 for i in range(1000)]})
    )
    lo.drop_columns(uri, ["fat"])
    size = sum(path.stat().st_size for path in (tmp_path / "t" / "data").iterdir())
    done = lo.compact_columns(uri)
    assert done.bytes_freed > 0.5 * size
    lo.cleanup(uri, retain_versions=1)
    assert sum(path.stat().st_size for path in (tmp_path / "t" / "data").iterdir()) < 0.5 * size
    assert [row["id"] for row in content(uri)] == list(range(1000))


def test_a_file_without_any_column_of_the_table_goes(tmp_path: Path):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"id": range(1000), "gone": range(1000)}))
    lance.dataset(uri).add_columns({"kept": "id + 1"})
    lance.dataset(uri).drop_columns(["id", "gone"])
    lo.compact_columns(uri, min_dead_ratio=0)
    assert files_of_fragments(uri) == [1]
    assert [row["kept"] for row in content(uri)] == list(range(1, 1001))


def test_groups_of_columns_get_files_of_their_own(tmp_path: Path):
    uri = evolved(tmp_path / "t")
    rows = content(uri)
    plan = lo.compact_columns(uri, column_groups=[["c0", "c2"], ["id"]], dry_run=True)
    lo.compact_columns(uri, column_groups=[["c0", "c2"], ["id"]])
    assert plan.files_after == 12
    assert files_of_fragments(uri) == [3] * 4
    assert content(uri) == rows
    assert not lo.compact_columns(uri, column_groups=[["c0", "c2"], ["id"]]).changed
    assert lo.compact_columns(uri).changed
    assert files_of_fragments(uri) == [1] * 4
    assert content(uri) == rows


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"column_groups": [["id", "c0"], ["c0"]]}, "column_groups"),
        ({"column_groups": [["nothing"]]}, "column_groups"),
        ({"column_groups": ["id"]}, "column_groups"),
        ({"min_files": 1}, "min_files"),
        ({"min_dead_ratio": 2.0}, "min_dead_ratio"),
        ({"max_bytes": 0}, "max_bytes"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, object], field: str):
    uri = evolved(tmp_path / "t", columns=1, indexed=False)
    with pytest.raises(lo.errors.InvalidArgumentError) as caught:
        lo.compact_columns(uri, **options)
    assert caught.value.field == field


def test_a_limit_of_bytes_leaves_the_rest_to_the_next_run(tmp_path: Path):
    uri = evolved(tmp_path / "t")
    whole = lo.compact_columns(uri, dry_run=True)
    half = (whole.bytes_read + whole.bytes_written) // 2 + 2000
    plan = lo.compact_columns(uri, max_bytes=half, dry_run=True)
    assert len(plan.fragments) == 2
    assert len(plan.left) == 2
    assert lo.compact_columns(uri, max_bytes=half).fragments == 2
    assert lo.compact_columns(uri, max_bytes=half).fragments == 2
    assert files_of_fragments(uri) == [1] * 4


def test_files_of_several_storage_versions_stay_apart(tmp_path: Path):
    uri = evolved(tmp_path / "t", version="2.0", indexed=False)
    rows = content(uri)
    lo.compact(uri, data_storage_version="2.1", max_source_fragments=2)
    lance.dataset(uri).add_columns({"late": "id + 1"})
    lo.compact_columns(uri)
    for fragment in lo.dataset(uri).fragments:
        versions = [file.storage_version for file in fragment.files]
        assert len(versions) == len(set(versions))
    assert [{**row, "late": row["id"] + 1} for row in rows] == sorted(content(uri), key=lambda row: row["id"])


def test_blobs_and_documents_keep_their_files(tmp_path: Path):
    uri = str(tmp_path / "t")
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("b")])
    blobs = lance.blob_array([bytes([i]) * (100_000 if i % 2 else 10) for i in range(6)])
    lance.write_dataset(pa.table([pa.array(range(6)), blobs], schema=schema), uri, data_storage_version="2.2")
    ds = lance.dataset(uri)
    for number in range(3):
        ds.add_columns({f"c{number}": f"id + {number}"})
    done = lo.compact_columns(uri)
    assert files_of_fragments(uri) == [2]
    assert any("positions of blobs" in note or "side files" in note for note in done.notes)
    lo.cleanup(uri, retain_versions=1)
    assert [row["c2"] for row in lance.dataset(uri).to_table(["c2"]).to_pylist()] == list(range(2, 8))
    read = lance.dataset(uri).take_blobs("b", indices=[1, 2])
    assert [len(blob.readall()) for blob in read] == [100_000, 10]


def test_overlays_stay_over_the_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ALLOWED, "1")
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(10), "x": range(10)}), uri, data_storage_version="2.1")
    lance.dataset(uri).add_columns({"y": "x + 1"})
    field = next(item.id() for item in lance.dataset(uri).lance_schema.fields() if item.name() == "x")
    lay(uri, pa.table({"x": pa.array([-1, -2], pa.int64())}), [field], [2, 7])
    rows = lance.dataset(uri).to_table().to_pylist()
    assert lo.compact_columns(uri).changed
    assert lance.dataset(uri).to_table().to_pylist() == rows
    assert lo.dataset(uri).to_table().to_pylist() == rows
    assert [row["x"] for row in rows[:3]] == [0, 1, -1]


def test_a_column_whose_file_differs_from_the_table_stays_apart(tmp_path: Path):
    uri = str(tmp_path / "t")
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int64(), nullable=False)]
    )
    lance.write_dataset(pa.table([range(100), range(100)], schema=schema), uri, data_storage_version="2.1")
    ds = lance.dataset(uri)
    ds.alter_columns({"path": "x", "nullable": True})
    for number in range(3):
        ds.add_columns({f"c{number}": f"id + {number}"})
    rows = content(uri)
    done = lo.compact_columns(uri)
    assert content(uri) == rows
    assert files_of_fragments(uri) == [2]
    assert any("'x' differs" in note for note in done.notes)


def test_a_damaged_file_ends_it_and_leaves_no_file(tmp_path: Path):
    uri = evolved(tmp_path / "t")
    file = lo.dataset(uri).fragments[2].files[-1].path
    path = tmp_path / "t" / "data" / file
    path.write_bytes(path.read_bytes()[:-300])
    files = sorted((tmp_path / "t" / "data").iterdir())
    with pytest.raises(lo.errors.LanceOpsError) as caught:
        lo.compact_columns(uri)
    assert file in str(caught.value) + str(caught.value.__cause__)
    assert sorted((tmp_path / "t" / "data").iterdir()) == files


def test_under_a_job_key_it_is_done_once(tmp_path: Path):
    uri = evolved(tmp_path / "t")
    assert lo.compact_columns(uri, job_key="night").changed
    lance.dataset(uri).add_columns({"late": "id"})
    again = lo.compact_columns(uri, job_key="night")
    assert again.already_committed
    assert not again.changed
    assert files_of_fragments(uri) == [2] * 4
