"""Reads with MemWAL: options of scans, schema changes, and damage that names the file."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CorruptFileError,
    FileMissingError,
    InvalidArgumentError,
    LanceOpsError,
    UnsupportedError,
)
from lance_ops.pb import mem_wal_pb2
from lance_ops.table.mem_wal.shards import bit_reversed
from tests.support.mem_wal import (
    SCHEMA,
    as_rows,
    create,
    has_key_indices,
    keys,
    new_shard,
    peer_read,
    read_all,
    settle,
    shards,
    table,
    writer,
)

pytestmark = pytest.mark.peer

BASE = {key: key for key in range(6)}
NOW = {0: 0, 1: 10, 2: 30, 3: 30, 5: 5, 9: 31, 12: 12}


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    """Two generations of one shard, and two log entries of another shard whose writer was killed."""
    uri = tmp_path / "t.lance"
    create(uri, BASE)
    with writer(uri, new_shard(), rows=3) as opened:
        opened.put(table({1: 10, 2: 20, 3: 30}))
        opened.put(table({2: 30, 9: 31}))
        settle(opened)
    with writer(uri, new_shard()) as opened:
        opened.put(table({12: 12}))
        opened.delete(keys([4]))
        # A copy of what a killed writer would leave.
        shutil.copytree(uri, tmp_path / "killed.lance")
    return tmp_path / "killed.lance"


def test_the_newest_row_of_each_key_is_read(uri: Path) -> None:
    dataset = lo.dataset(uri)
    assert as_rows(dataset.to_table(mem_wal=True)) == NOW
    assert as_rows(dataset.to_table()) == BASE
    found = dataset.to_table(["v"], "id > 1 and s <> 's5'", mem_wal=True, order_by=["v"])
    assert found.to_pydict() == {"v": [12, 30, 30, 31]}
    assert dataset.to_table(["id"], mem_wal=True, order_by=["id"], limit=2, offset=1).to_pydict() == {
        "id": [1, 2]
    }
    assert dataset.to_table([], mem_wal=True).num_rows == len(NOW)
    assert dataset.scanner(mem_wal=True).count_rows() == len(NOW)
    assert dataset.to_table(mem_wal=True).schema == dataset.to_table().schema
    assert sum(batch.num_rows for batch in dataset.to_batches(mem_wal=True, batch_size=2)) == len(NOW)


def test_a_plain_scan_says_what_it_leaves_out(uri: Path) -> None:
    told = "7 rows of MemWAL: 5 in 2 flushed generations and 2 in 2 log entries of 2 shards"
    assert f"left out: {told}" in lo.dataset(uri).explain()
    assert f"read with it: {told}" in lo.dataset(uri).explain(mem_wal=True)
    health = lo.measure_health(uri)
    assert (health.mem_wal_rows, health.mem_wal_generations) == (7, 2)
    assert "7 rows are not in the table" in str(lo.describe(uri))
    assert not lo.fsck(uri).findings


def test_a_table_without_mem_wal_is_read_as_ever(tmp_path: Path) -> None:
    lo.write_dataset(table(BASE), tmp_path / "t.lance")
    dataset = lo.dataset(tmp_path / "t.lance")
    assert dataset.to_table(mem_wal=True) == dataset.to_table()
    assert "MemWAL" not in dataset.explain()
    assert lo.measure_health(dataset).mem_wal_rows is None


@pytest.mark.parametrize(
    "options",
    [{"with_row_id": True}, {"fragments": [0]}, {"columns": {"a": "v + 1"}}, {"prefilter": True}],
)
def test_rows_of_mem_wal_have_no_address_and_no_index(uri: Path, options: dict) -> None:
    with pytest.raises(UnsupportedError, match="compact_wal"):
        lo.dataset(uri).to_table(mem_wal=True, **options)


@pytest.mark.parametrize("columns", [["_rowid"], ["nope"]])
def test_columns_are_those_of_the_table(uri: Path, columns: list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match=columns[0]):
        lo.dataset(uri).to_table(columns, mem_wal=True)


SCHEMA_CHANGES: dict[str, Callable[[Path], object]] = {
    "add": lambda uri: lance.dataset(str(uri)).add_columns(pa.field("n", pa.int64())),
    "rename": lambda uri: lo.alter_columns(uri, {"path": "s", "name": "t"}),
    "drop": lambda uri: lance.dataset(str(uri)).drop_columns(["s"]),
    "rename and reuse": lambda uri: (
        lo.alter_columns(uri, {"path": "s", "name": "t"}),
        lance.dataset(str(uri)).add_columns(pa.field("s", pa.string())),
    ),
}


@pytest.mark.parametrize("name", SCHEMA_CHANGES)
def test_columns_are_matched_by_their_ids(uri: Path, name: str) -> None:
    SCHEMA_CHANGES[name](uri)
    dataset = lo.dataset(uri)
    ours = dataset.to_table(mem_wal=True)
    assert as_rows(ours) == NOW
    # The same writer replays its log on the new schema, and flushes it.
    for shard in shards(uri):
        writer(uri, str(shard.id)).close()
    if has_key_indices(uri):
        theirs = peer_read(uri)
        assert theirs.schema.names == ours.schema.names
        assert sorted(theirs.to_pylist(), key=lambda row: row["id"]) == sorted(
            ours.to_pylist(), key=lambda row: row["id"]
        )
    lo.compact_wal(uri)
    folded = lance.dataset(str(uri)).to_table()
    assert sorted(folded.to_pylist(), key=lambda row: row["id"]) == sorted(
        ours.to_pylist(), key=lambda row: row["id"]
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda uri: lo.add_columns(uri, {"n": "v * 2"}),
        lambda uri: lo.alter_columns(uri, {"path": "v", "data_type": pa.int32()}),
        lambda uri: lo.merge(uri, pa.table({"id": [1], "n": [2]}), "id"),
    ],
)
def test_columns_that_waiting_rows_would_lack_are_refused_as_by_the_peer(uri: Path, change: Callable) -> None:
    with pytest.raises(UnsupportedError, match="table with MemWAL"):
        change(uri)
    lo.add_columns(uri, {"n": "cast(NULL as bigint)"})
    assert read_all(uri) == NOW


def test_a_table_without_a_key_keeps_every_row(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    plain = pa.schema([field.with_metadata(None) for field in SCHEMA])
    lance.write_dataset(table(BASE, plain), str(uri))
    lance.dataset(str(uri)).initialize_mem_wal(unsharded=True)
    with writer(uri, new_shard()) as opened:
        opened.put(table({1: 1}, plain))
        opened.put(table({1: 2}, plain))
    expected = sorted([*BASE, 1, 1])
    assert sorted(lo.dataset(uri).to_table(mem_wal=True)["id"].to_pylist()) == expected
    assert lo.compact_wal(uri).rows_inserted == 2
    assert sorted(lance.dataset(str(uri)).to_table()["id"].to_pylist()) == expected
    assert lo.compact_wal(uri).generations_merged == 0


def log_files(uri: Path) -> list[Path]:
    """Entries with rows, of the shard with unflushed ones."""
    (shard,) = [item for item in shards(uri) if not item.generations]
    return [uri / shard.folder / "wal" / f"{bit_reversed(n)}.arrow" for n in (1, 2)]


def flushed(uri: Path) -> Path:
    """The first generation."""
    (shard,) = [item for item in shards(uri) if item.generations]
    return uri / shard.generations[0].path


def manifest(uri: Path) -> Path:
    """Manifest of the shard with generations."""
    (shard,) = [item for item in shards(uri) if item.generations]
    return uri / shard.path


def edit(path: Path, **values: int) -> None:
    """Change fields of a shard manifest."""
    message = mem_wal_pb2.RegionManifest.FromString(path.read_bytes())
    for name, value in values.items():
        setattr(message, name, value)
    path.write_bytes(message.SerializeToString())


def forget(path: Path) -> None:
    """Remove the first generation from a shard manifest."""
    message = mem_wal_pb2.RegionManifest.FromString(path.read_bytes())
    del message.flushed_generations[0]
    path.write_bytes(message.SerializeToString())


def with_epoch(path: Path, epoch: bytes) -> None:
    """Write an entry again with another epoch."""
    with pa.ipc.open_stream(path) as stream:
        rows = stream.read_all()
    metadata = {**rows.schema.metadata, b"writer_epoch": epoch}
    with pa.ipc.new_stream(str(path), rows.schema.with_metadata(metadata)) as sink:
        sink.write_table(rows.replace_schema_metadata(metadata))


DAMAGE: dict[str, tuple[Callable[[Path], object], type[LanceOpsError], str]] = {
    "generation missing": (lambda uri: shutil.rmtree(flushed(uri)), FileMissingError, "_gen_1"),
    "data file missing": (
        lambda uri: next((flushed(uri) / "data").iterdir()).unlink(),
        FileMissingError,
        "_gen_1/data",
    ),
    "generation forgotten": (lambda uri: forget(manifest(uri)), FileMissingError, ".binpb"),
    "torn entry": (
        lambda uri: log_files(uri)[1].write_bytes(log_files(uri)[1].read_bytes()[:-40]),
        CorruptFileError,
        ".arrow",
    ),
    "entry without its end": (
        lambda uri: log_files(uri)[1].write_bytes(log_files(uri)[1].read_bytes()[:-8]),
        CorruptFileError,
        ".arrow",
    ),
    "empty entry": (lambda uri: log_files(uri)[0].write_bytes(b""), CorruptFileError, ".arrow"),
    "entry missing": (lambda uri: log_files(uri)[0].unlink(), FileMissingError, "/wal"),
    "epoch of the future": (lambda uri: with_epoch(log_files(uri)[0], b"9"), CorruptFileError, ".arrow"),
    "no epoch": (lambda uri: with_epoch(log_files(uri)[0], b"?"), CorruptFileError, ".arrow"),
    "torn manifest": (lambda uri: manifest(uri).write_bytes(b"\xff\xff"), CorruptFileError, ".binpb"),
    "wrong version": (lambda uri: edit(manifest(uri), version=77), CorruptFileError, ".binpb"),
    "generation of the future": (
        lambda uri: edit(manifest(uri), current_generation=2),
        CorruptFileError,
        ".binpb",
    ),
    "manifests missing": (lambda uri: shutil.rmtree(manifest(uri).parent), FileMissingError, "/manifest"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_names_the_file_and_loses_nothing(uri: Path, name: str, tmp_path: Path) -> None:
    damage, kind, path = DAMAGE[name]
    whole = tmp_path / "whole.lance"
    shutil.copytree(uri, whole)
    damage(uri)
    with pytest.raises(kind) as caught:
        lo.dataset(uri).to_table(mem_wal=True)
    assert path in str(caught.value.path)
    assert [item.check for item in lo.fsck(uri, deep=True).findings] in ([], ["mem_wal_readable"])
    with contextlib.suppress(kind):
        lo.compact_wal(uri)
    # What was damaged is brought back: the rows are all there.
    shutil.copytree(whole / "_mem_wal", uri / "_mem_wal", dirs_exist_ok=True)
    assert read_all(uri) == NOW


def test_a_hint_is_only_a_hint(uri: Path) -> None:
    for shard in shards(uri):
        hint = uri / shard.folder / "manifest" / "version_hint.json"
        for text in (b"{", b'{"version": 1}', b'{"version": 99}', b"[]", b""):
            hint.write_bytes(text)
            assert read_all(uri) == NOW
        hint.unlink()
    assert read_all(uri) == NOW
