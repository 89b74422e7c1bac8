"""Every way to read, on a dataset with several fragments, deletions, versions, tags and nested columns."""

import datetime as dt

import lance
import numpy as np
import pyarrow as pa

ROWS = 400


def make(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    vectors = np.arange(4 * len(numbers), dtype="float32").reshape(-1, 4)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "small": pa.array([None if n % 11 == 0 else n % 7 for n in numbers], pa.int8()),
            "price": pa.array([float("nan") if n % 97 == 0 else n / 8 for n in numbers], pa.float32()),
            "name": [None if n % 13 == 0 else f"name {n % 50}" for n in numbers],
            "word": pa.array([f"w{n % 5}" for n in numbers]).dictionary_encode(),
            "raw": pa.array([bytes([n % 256]) * (n % 4) for n in numbers], pa.binary()),
            "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta(days=n) for n in numbers], pa.date32()),
            "at": pa.array([n * 1_000_000 for n in numbers], pa.timestamp("us", "UTC")),
            "flag": pa.array([None if n % 5 == 0 else n % 2 == 0 for n in numbers]),
            "place": pa.array(
                [{"x": n, "in": {"y": f"y{n % 3}" if n % 4 else None}} for n in numbers],
                pa.struct([("x", pa.int32()), ("in", pa.struct([("y", pa.string())]))]),
            ),
            "tags": pa.array([[f"t{i}" for i in range(n % 4)] for n in numbers], pa.list_(pa.string())),
            "vector": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), 4),
        }
    )


FILTERS = [
    "id = 17",
    "id IN (1, 2, 3, 399, 1000)",
    "id BETWEEN 100 AND 120 AND small > 2",
    "small IS NULL OR price > 50",
    "NOT (flag OR small = 3)",
    "name LIKE 'name 1%' AND NOT name LIKE '%9'",
    "word = 'w3' OR word IS NULL",
    "place.x < 10 AND place.`in`.y = 'y1'",
    "array_has(tags, 't2')",
    "day >= DATE '2024-06-01' AND day < DATE '2024-07-01'",
    "at > TIMESTAMP '1970-01-01 00:05:00Z'",
    "isnan(price)",
    "cast(id as string) LIKE '5%'",
    "lower(name) = 'name 7'",
    "id % 10 = 3 AND (price * 2 > 10 OR price IS NULL)",
    "raw = x'0505'",
    "false",
    "id >= 0",
]
COLUMNS = [
    None,
    ["id"],
    ["name", "id"],
    ["place.x"],
    ["place.in.y", "id"],
    ["tags", "vector"],
    ["_rowid", "id"],
    [],
]


def read(dataset: lance.LanceDataset) -> None:
    for columns in COLUMNS:
        more = {"with_row_id": True} if columns == [] else {}
        dataset.to_table(columns=columns, **more)
        dataset.to_table(columns=columns, filter="id % 3 = 0", **more)
    for condition in FILTERS:
        dataset.to_table(filter=condition)
        dataset.count_rows(condition)
        dataset.scanner(columns=["id"], filter=condition, with_row_id=True, with_row_address=True).to_table()
        dataset.to_table(filter=condition, limit=5, offset=2)
    dataset.head(7)
    dataset.head(3, columns=["name"], filter="small = 2")
    dataset.slice(10, 20)
    dataset.to_table(limit=10, offset=max(0, dataset.count_rows() - 5))
    dataset.to_table(offset=10_000)
    list(dataset.to_batches(batch_size=64))
    list(dataset.to_batches(columns=["vector"], filter="id > 300", batch_size=10))
    dataset.scanner(filter="flag").count_rows()
    dataset.scanner(columns=["word"]).to_reader().read_all()
    dataset.to_table(columns={"id": "id", "name": "name"})
    dataset.to_pandas(columns=["id", "day"], filter="id < 5")
    dataset.take([])
    if dataset.count_rows():
        dataset.take([5, 0, 5, 44])
        dataset.take(pa.array([3, 1]), columns=["place.x", "_rowid", "_rowid"])
        dataset.take([2], columns=["_rowaddr", "_rowoffset", "id"])
        dataset.sample(9)
    for fragment in dataset.get_fragments():
        fragment.to_table(columns=["id", "tags"], filter="id % 2 = 1")
        fragment.head(3)
        fragment.count_rows()
        fragment.count_rows("small = 1")
        list(fragment.to_batches(columns=["name"], with_row_id=True))
        if fragment.count_rows() > 2:
            fragment.take([0, 2], columns=["id"])
    chosen = list(reversed(dataset.get_fragments()))[:2]
    dataset.scanner(fragments=chosen, columns=["id"], filter="small = 1").to_table()
    dataset.versions()
    assert dataset.schema is not None


def main(version: str, *, stable: bool) -> None:
    uri = f"reads-{version}-{stable}.lance"
    options = {"data_storage_version": version, "enable_stable_row_ids": stable}
    lance.write_dataset(make(0, 150), uri, max_rows_per_file=100, **options)
    dataset = lance.write_dataset(make(150, ROWS), uri, mode="append", max_rows_per_file=200, **options)
    read(dataset)
    dataset.delete("id % 17 = 4 OR (id > 300 AND id < 320)")
    dataset.tags.create("deleted", 3)
    read(dataset)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("name", "BTREE")
    lance.write_dataset(make(ROWS, ROWS + 50), uri, mode="append")
    dataset = lance.dataset(uri)
    read(dataset)
    dataset.update({"small": "small + 1"}, where="id < 60 AND small < 5")
    dataset.optimize.compact_files(target_rows_per_fragment=300)
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(make(440, 460))
    read(lance.dataset(uri))
    read(lance.dataset(uri, version=1))
    read(lance.dataset(uri, version="deleted"))
    dataset.delete("true")
    read(lance.dataset(uri))


for storage, ids in (("2.0", False), ("2.2", True)):
    main(storage, stable=ids)
