"""Code written for pylance runs with the name of the module replaced, with equal results."""

import datetime as dt
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_ops as lo

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

Call = Callable[[Any, Any, str], Any]
"""Of the library, a dataset and a folder; returns what is compared."""

_RNG = np.random.default_rng(7)
SOON = dt.datetime(2100, 1, 1)  # noqa: DTZ001 - local time, as both libraries take it
VECTORS = _RNG.random((300, 8), np.float32)


def data(first: int = 0, rows: int = 300) -> pa.Table:
    numbers = np.arange(first, first + rows)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.resize(VECTORS, rows * 8)), 8)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "kind": pa.array([None if n % 17 == 0 else "abc"[n % 3] for n in numbers]),
            "price": pa.array(numbers / 4, pa.float32()),
            "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta(int(n) % 40) for n in numbers]),
            "text": pa.array([f"word{n % 5} other{n % 3}" for n in numbers]),
            "place": pa.array([{"x": int(n), "y": str(n)} for n in numbers]),
            "vector": vectors,
        }
    )


def rows(table: pa.Table) -> Any:
    return table.drop_columns([name for name in table.column_names if name == "vector"]).to_pylist()


def merged(ds: Any, build: Callable[[Any], Any], new: pa.Table) -> Any:
    done = build(ds.merge_insert("id")).execute(new)
    names = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")
    return [done[name] for name in names], rows(ds.to_table().sort_by("id")), ds.version


CALLS: dict[str, Call] = {
    "to_table": lambda lib, ds, at: rows(ds.to_table()),
    "columns": lambda lib, ds, at: rows(ds.to_table(columns=["id", "place.x"])),
    "computed columns": lambda lib, ds, at: rows(ds.to_table(columns={"x": "id * 2", "k": "upper(kind)"})),
    "filter": lambda lib, ds, at: rows(ds.to_table(filter="id > 10 AND kind = 'a'")),
    "filter of pyarrow": lambda lib, ds, at: rows(ds.to_table(filter=pc.field("id") > 290)),
    "filters of pyarrow joined": lambda lib, ds, at: rows(
        ds.to_table(filter=(pc.field("kind") == "a") & ~(pc.field("id") < 200))
    ),
    "filter by a list": lambda lib, ds, at: rows(ds.to_table(filter=pc.field("id").isin([1, 5, 7]))),
    "filter for nulls": lambda lib, ds, at: ds.count_rows(pc.field("kind").is_null()),
    "filter of dates": lambda lib, ds, at: ds.count_rows(pc.field("day") >= dt.date(2024, 2, 1)),
    "limit and offset": lambda lib, ds, at: rows(ds.to_table(limit=5, offset=7)),
    "with_row_id": lambda lib, ds, at: ds.to_table(columns=["id"], with_row_id=True, limit=3).to_pydict(),
    "order_by": lambda lib, ds, at: rows(
        ds.to_table(columns=["kind", "id"], order_by=["kind", "id"], limit=9)
    ),
    "order_by descending": lambda lib, ds, at: (
        rows(
            ds.to_table(
                columns=["id"], order_by=[lance.dataset.ColumnOrdering("id", ascending=False)], limit=9
            )
        )
        if hasattr(lance.dataset, "ColumnOrdering")
        else None
    ),
    "tuning": lambda lib, ds, at: ds.to_table(batch_readahead=2, use_stats=True, scan_in_order=True).num_rows,
    "to_batches": lambda lib, ds, at: sum(batch.num_rows for batch in ds.to_batches(batch_size=64)),
    "scanner": lambda lib, ds, at: rows(ds.scanner(columns=["id"], filter="id < 4").to_table()),
    "scanner, reader": lambda lib, ds, at: rows(ds.scanner(limit=3).to_reader().read_all()),
    "scanner, head": lambda lib, ds, at: rows(ds.scanner().head(3)),
    "scanner, schema": lambda lib, ds, at: ds.scanner(columns=["id"]).projected_schema,
    "scanner, count": lambda lib, ds, at: ds.scanner(filter="id < 7").count_rows(),
    "to_pandas": lambda lib, ds, at: ds.to_pandas(columns=["id", "kind"], limit=3).to_dict("list"),
    "head": lambda lib, ds, at: rows(ds.head(4)),
    "take": lambda lib, ds, at: rows(ds.take([5, 0, 7], columns=["id"])),
    "take by name": lambda lib, ds, at: rows(ds.take(indices=[5, 0, 7])),
    "slice": lambda lib, ds, at: rows(ds.slice(3, 9, ["id"])),
    "sample": lambda lib, ds, at: ds.sample(10, columns=["id"]).num_rows,
    "count_rows": lambda lib, ds, at: (ds.count_rows(), ds.count_rows(filter="id > 5")),
    "schema": lambda lib, ds, at: ds.schema,
    "version": lambda lib, ds, at: (ds.version, ds.latest_version),
    "versions": lambda lib, ds, at: [item["version"] for item in ds.versions()],
    "uri": lambda lib, ds, at: Path(ds.uri).name,
    "data_storage_version": lambda lib, ds, at: ds.data_storage_version,
    "has_index": lambda lib, ds, at: ds.has_index,
    "max_field_id": lambda lib, ds, at: ds.max_field_id,
    "has_stable_row_ids": lambda lib, ds, at: ds.has_stable_row_ids,
    "asof": lambda lib, ds, at: lib.dataset(ds.uri, asof=SOON).version,
    "dataset by version": lambda lib, ds, at: lib.dataset(ds.uri, version=1).count_rows(),
    "fragments": lambda lib, ds, at: [
        (item.fragment_id, item.count_rows(), item.to_table(columns=["id"]).num_rows)
        for item in ds.get_fragments()
    ],
    "fragment": lambda lib, ds, at: rows(ds.get_fragment(0).head(2)),
    "scan of a fragment": lambda lib, ds, at: ds.scanner(fragments=ds.get_fragments()[:1]).count_rows(),
    "pickle": lambda lib, ds, at: rows(pickle.loads(pickle.dumps(ds)).to_table()),
    "nearest": lambda lib, ds, at: ds.to_table(
        columns=["id"], nearest={"column": "vector", "q": VECTORS[5], "k": 4}
    )["id"].to_pylist(),
    "append by write_dataset": lambda lib, ds, at: lib.write_dataset(
        data(300, 5), ds.uri, mode="append"
    ).count_rows(),
    "overwrite": lambda lib, ds, at: rows(lib.write_dataset(data(3, 5), ds.uri, mode="overwrite").to_table()),
    "write of a list": lambda lib, ds, at: lib.write_dataset([{"a": 1}, {"a": 2}], f"{at}/n").schema,
    "write with a schema": lambda lib, ds, at: (
        lib.write_dataset([{"a": 1}], f"{at}/n", schema=pa.schema([("a", pa.int16())])).schema
    ),
    "write of batches": lambda lib, ds, at: lib.write_dataset(
        iter(data().to_batches()), f"{at}/n", schema=data().schema
    ).count_rows(),
    "write with sizes": lambda lib, ds, at: [
        item.count_rows()
        for item in lib.write_dataset(data(), f"{at}/n", max_rows_per_file=100).get_fragments()
    ],
    "write with stable row ids": lambda lib, ds, at: (
        lib.write_dataset(data(), f"{at}/n", enable_stable_row_ids=True).has_stable_row_ids
    ),
    "write to a dataset": lambda lib, ds, at: lib.write_dataset(data(0, 2), ds, mode="append").version,
    "insert": lambda lib, ds, at: (ds.insert(data(300, 5)) and None, ds.version, ds.count_rows()),
    "insert, overwrite": lambda lib, ds, at: (
        ds.insert(data(0, 5), mode="overwrite") and None,
        rows(ds.to_table()),
    ),
    "delete": lambda lib, ds, at: (ds.delete("id < 50")["num_deleted_rows"], ds.version, ds.count_rows()),
    "delete by pyarrow": lambda lib, ds, at: (ds.delete(pc.field("id") < 50) and None, rows(ds.to_table())),
    "update": lambda lib, ds, at: (
        ds.update({"kind": "'z'"}, where="id < 9")["num_rows_updated"],
        rows(ds.to_table().sort_by("id")),
    ),
    "update all": lambda lib, ds, at: ds.update({"price": "price + 1"})["num_rows_updated"],
    "upsert": lambda lib, ds, at: merged(
        ds, lambda b: b.when_matched_update_all().when_not_matched_insert_all(), data(295, 10)
    ),
    "insert if new": lambda lib, ds, at: merged(ds, lambda b: b.when_not_matched_insert_all(), data(295, 10)),
    "update if": lambda lib, ds, at: merged(
        ds, lambda b: b.when_matched_update_all("source.id > 297"), data(295, 10)
    ),
    "delete by source": lambda lib, ds, at: merged(
        ds,
        lambda b: b.when_not_matched_insert_all().when_not_matched_by_source_delete("id < 100"),
        data(295, 10),
    ),
    "replace a part": lambda lib, ds, at: merged(
        ds,
        lambda b: (
            b.when_matched_update_all()
            .when_not_matched_insert_all()
            .when_not_matched_by_source_delete()
            .conflict_retries(3)
            .use_index(False)
        ),
        data(295, 10),
    ),
    "add_columns": lambda lib, ds, at: (ds.add_columns({"twice": "id * 2"}), rows(ds.to_table(["twice"]))),
    "add_columns, function": lambda lib, ds, at: (
        ds.add_columns(
            lib.batch_udf(output_schema=pa.schema([("n", pa.int64())]))(
                lambda batch: pa.record_batch({"n": pc.add(batch["id"], 1)})
            ),
            read_columns=["id"],
        ),
        rows(ds.to_table(["n"])),
    )[1],
    "add_columns, nulls": lambda lib, ds, at: (ds.add_columns(pa.field("n", pa.int32())), ds.schema)[1],
    "alter_columns": lambda lib, ds, at: (
        ds.alter_columns({"path": "kind", "name": "sort"}),
        ds.schema.names,
    )[1],
    "alter_columns, type": lambda lib, ds, at: (
        ds.alter_columns({"path": "price", "data_type": pa.float64()}),
        ds.schema.field("price"),
    )[1],
    "drop_columns": lambda lib, ds, at: (ds.drop_columns(["price"]), ds.schema.names)[1],
    "merge": lambda lib, ds, at: (
        ds.merge(pa.table({"id": [1, 2], "extra": ["x", "y"]}), "id"),
        rows(ds.to_table(["id", "extra"])),
    )[1],
    "create_scalar_index": lambda lib, ds, at: (
        ds.create_scalar_index("id", "BTREE"),
        rows(ds.to_table(filter="id = 7")),
        [(item["name"], item["type"], item["fields"]) for item in ds.list_indices()],
    )[1:],
    "create_scalar_index twice": lambda lib, ds, at: (
        ds.create_scalar_index("kind", index_type="BITMAP"),
        ds.create_scalar_index("kind", index_type="BITMAP"),
        ds.count_rows("kind = 'b'"),
    )[2],
    "create_index": lambda lib, ds, at: (
        ds.create_index("vector", "IVF_FLAT", num_partitions=2, metric="L2"),
        ds.has_index,
        ds.to_table(["id"], nearest={"column": "vector", "q": VECTORS[5], "k": 3, "nprobes": 2})[
            "id"
        ].to_pylist(),
    )[1:],
    "text index": lambda lib, ds, at: (
        ds.create_scalar_index("text", "INVERTED"),
        sorted(ds.to_table(["id"], full_text_query="word3", limit=400)["id"].to_pylist()),
    )[1],
    "drop_index": lambda lib, ds, at: (
        ds.create_scalar_index("id", "BTREE", name="i"),
        ds.drop_index("i"),
        ds.list_indices(),
    )[2],
    "index_statistics": lambda lib, ds, at: (
        ds.create_scalar_index("id", "BTREE"),
        ds.stats.index_stats("id_idx")["num_indexed_rows"],
        ds.index_statistics("id_idx")["num_unindexed_rows"],
    )[1:],
    "describe_indices": lambda lib, ds, at: (
        ds.create_scalar_index("id", "BTREE"),
        [(item.name, item.num_rows_indexed) for item in ds.describe_indices()],
    )[1],
    "compact_files": lambda lib, ds, at: (
        ds.optimize.compact_files(target_rows_per_fragment=1000, num_threads=2).fragments_removed,
        rows(ds.to_table()),
        len(ds.get_fragments()),
    ),
    "optimize_indices": lambda lib, ds, at: (
        ds.create_scalar_index("id", "BTREE"),
        ds.insert(data(300, 5)),
        ds.optimize.optimize_indices(),
        ds.stats.index_stats("id_idx")["num_unindexed_rows"],
    )[3],
    "cleanup_old_versions": lambda lib, ds, at: (
        ds.insert(data(300, 5)),
        ds.cleanup_old_versions(older_than=dt.timedelta(0), delete_unverified=True) is not None,
        [item["version"] for item in ds.versions()],
    )[2],
    "tags": lambda lib, ds, at: (
        ds.tags.create("one", 1),
        ds.tags.create("now"),
        ds.tags.update("now", 1),
        ds.tags.get_version("now"),
        sorted(ds.tags.list()),
        [name for name, _ in ds.tags.list_ordered()],
        lib.dataset(ds.uri, version="one").version,
        ds.tags.delete("one"),
        {name: tag["version"] for name, tag in ds.tags.list().items()},
    )[3:],
    "branches": lambda lib, ds, at: (
        ds.create_branch("trial").version,
        sorted(ds.branches.list()),
        ds.checkout_version(("trial", None)).count_rows(),
        ds.branches.delete("trial"),
        ds.branches.list(),
    ),
    "checkout_version": lambda lib, ds, at: (
        ds.delete("id < 9"),
        ds.checkout_version(1).count_rows(),
        ds.version,
    )[1:],
    "checkout_latest": lambda lib, ds, at: (
        lib.write_dataset(data(0, 3), ds.uri, mode="append"),
        ds.count_rows(),
        ds.checkout_latest(),
        ds.count_rows(),
    )[1::2],
    "restore": lambda lib, ds, at: (
        ds.delete("id < 9"),
        (old := ds.checkout_version(1)).restore(),
        old.version,
        lib.dataset(ds.uri).count_rows(),
    )[2:],
    "config": lambda lib, ds, at: (
        ds.update_config({"a.b": "c", "d": "e"}),
        ds.delete_config_keys(["d"]),
        {name: value for name, value in ds.config().items() if not name.startswith("lance_ops.")},
    )[2],
    "metadata": lambda lib, ds, at: (ds.update_metadata({"a": "b"}), ds.metadata)[1],
    "metadata of the schema": lambda lib, ds, at: (
        ds.replace_schema_metadata({"a": "b"}),
        ds.update_schema_metadata({"c": "d"}),
        ds.schema.metadata,
    )[2],
    "metadata of a field": lambda lib, ds, at: (
        ds.replace_field_metadata("id", {"unit": "m"}),
        ds.schema.field("id").metadata,
    )[1],
    "shallow_clone": lambda lib, ds, at: ds.shallow_clone(f"{at}/clone", 1).count_rows(),
    "truncate_table": lambda lib, ds, at: (ds.truncate_table(), ds.count_rows())[1],
    "validate": lambda lib, ds, at: ds.validate(),
    "dataset_stats": lambda lib, ds, at: dict(ds.stats.dataset_stats()),
    "arrow stream": lambda lib, ds, at: (
        pa.RecordBatchReader.from_stream(ds.scanner().to_reader()).read_all().num_rows
    ),
}


@pytest.fixture
def made(tmp_path: Path) -> Callable[[Any], tuple[Any, str]]:
    def make(lib: Any) -> tuple[Any, str]:
        folder = tmp_path / lib.__name__
        dataset = lib.write_dataset(data(0, 200), str(folder / "t.lance"), data_storage_version="2.1")
        return lib.write_dataset(data(200, 100), dataset.uri, mode="append"), str(folder)

    return make


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_same_result(made, name):
    call = CALLS[name]
    ours, theirs = (call(lib, *made(lib)) for lib in (lo, lance))
    if isinstance(theirs, pa.Schema):
        assert ours.equals(theirs)
    else:
        assert _comparable(ours) == _comparable(theirs)


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (pc.field("vector").is_valid(), 300),
        (pc.field("place", "x") == 3, 1),
        (pc.field("price") > 74.7, 1),
    ],
    ids=str,
)
def test_conditions_of_pyarrow_that_pylance_cannot_read_are_read(made, condition, count):
    dataset, _ = made(lo)
    assert dataset.count_rows(condition) == count
    with pytest.raises((ValueError, pa.ArrowException)):
        made(lance)[0].count_rows(condition)


def _comparable(value: Any) -> Any:
    """Return what is compared: not what one library returns where the other one returns None."""
    if isinstance(value, tuple):
        return tuple(
            _comparable(item) for item in value if isinstance(item, (int, str, list, tuple, dict, pa.Field))
        )
    return value
