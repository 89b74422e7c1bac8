"""Every kind of write, on tables with and without stable row ids, with indices, tags and branches."""

from datetime import timedelta

import lance
import pyarrow as pa


def make(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "id": numbers,
            "value": [None if n % 5 == 0 else n / 4 for n in numbers],
            "name": [f"name {n % 9}" for n in numbers],
        }
    )


def main(*, stable: bool) -> None:
    uri = f"writes-{stable}.lance"
    dataset = lance.write_dataset(make(0, 60), uri, max_rows_per_file=25, enable_stable_row_ids=stable)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("name", "BITMAP")
    dataset.create_scalar_index("name", "BTREE")
    dataset.insert(iter(make(60, 90).to_batches()), schema=make(0, 9).schema)
    dataset.update({"value": "value + 1", "name": "'changed'"}, where="id < 20 AND value IS NOT NULL")
    dataset.delete("id % 11 = 3")
    dataset.delete("id > 1000")
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(make(80, 110))
    dataset.merge_insert("id").when_matched_update_all("source.id > 5").execute(make(0, 10))
    dataset.merge_insert("id").when_not_matched_by_source_delete(
        "id < 50"
    ).when_not_matched_insert_all().execute(make(20, 200))
    dataset.tags.create("merged")
    dataset.add_columns({"double": "id * 2", "word": "concat(name, '!')"})
    dataset.add_columns([pa.field("empty", pa.string())])
    dataset.merge(pa.table({"id": range(40), "more": range(40)}), "id")
    dataset.alter_columns({"path": "double", "data_type": pa.int32()}, {"path": "word", "name": "said"})
    dataset.drop_columns(["empty"])
    branch = dataset.create_branch("side")
    branch.delete("id < 30")
    dataset.optimize.optimize_indices()
    dataset.optimize.compact_files(target_rows_per_fragment=100)
    dataset.drop_index("name_idx")
    dataset.tags.update("merged", dataset.version)
    dataset.cleanup_old_versions(older_than=timedelta(0))
    dataset.checkout_version("merged").restore()
    dataset.tags.delete("merged")
    lance.write_dataset(make(5, 8), uri, mode="overwrite")


for ids in (False, True):
    main(stable=ids)
