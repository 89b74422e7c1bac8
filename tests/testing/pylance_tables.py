"""Adapter of the official library for the table scenes: an example for other implementations.

`python -m lance_ops.testing.table tests.testing.pylance_tables:PylanceTables`
"""

from datetime import timedelta

import lance
import pyarrow as pa
from lance.optimize import Compaction

from lance_ops.testing.table.adapter import Meanwhile, Rows


class PylanceTables:
    """See `TableAdapter`."""

    name = "pylance"

    def create(self, uri: str, rows: Rows, *, rows_per_file: int) -> None:
        lance.write_dataset(_table(rows), uri, max_rows_per_file=rows_per_file)

    def newest(self, uri: str) -> int:
        return lance.dataset(uri).version

    def read(
        self, uri: str, *, version: int | None = None, where: str | None = None
    ) -> list[tuple[int, int]]:
        table = lance.dataset(uri, version=version).to_table(filter=where)
        return list(zip(table["id"].to_pylist(), table["k"].to_pylist(), strict=True))

    def append(self, uri: str, rows: Rows, meanwhile: Meanwhile) -> None:
        dataset = lance.dataset(uri)
        fragments = lance.fragment.write_fragments(_table(rows), dataset)
        meanwhile()
        operation = lance.LanceOperation.Append(fragments)
        lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)

    def append_twice(self, uri: str, rows: Rows) -> None:
        dataset = lance.dataset(uri)
        operation = lance.LanceOperation.Append(lance.fragment.write_fragments(_table(rows), dataset))
        for _ in range(2):
            lance.LanceDataset.commit(uri, operation, read_version=dataset.version)

    def overwrite(self, uri: str, rows: Rows, meanwhile: Meanwhile) -> None:
        dataset = lance.dataset(uri)
        table = _table(rows)
        fragments = lance.fragment.write_fragments(table, dataset, mode="overwrite")
        meanwhile()
        operation = lance.LanceOperation.Overwrite(table.schema, fragments)
        lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)

    def delete(self, uri: str, where: str, meanwhile: Meanwhile) -> None:
        dataset = lance.dataset(uri)
        updated, removed = [], []
        for fragment in dataset.get_fragments():
            left = fragment.delete(where)
            if left is None:
                removed.append(fragment.fragment_id)
            elif left.deletion_file != fragment.metadata.deletion_file:
                updated.append(left)
        meanwhile()
        operation = lance.LanceOperation.Delete(updated, removed, where)
        lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)

    def update(self, uri: str, plus: int, where: str, meanwhile: Meanwhile) -> None:
        dataset = lance.dataset(uri)
        meanwhile()
        dataset.update({"k": f"k + {plus}"}, where)

    def upsert(self, uri: str, rows: Rows, meanwhile: Meanwhile) -> None:
        dataset = lance.dataset(uri)
        builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        operation, *_ = builder.execute_uncommitted(_table(rows))
        meanwhile()
        lance.LanceDataset.commit(dataset, operation)

    def compact(self, uri: str, meanwhile: Meanwhile) -> None:
        dataset = lance.dataset(uri)
        options = {"materialize_deletions_threshold": 0.0}
        rewrites = [task.execute(dataset) for task in Compaction.plan(dataset, options).tasks]
        meanwhile()
        if rewrites:
            Compaction.commit(dataset, rewrites)

    def create_index(self, uri: str, column: str, meanwhile: Meanwhile) -> None:
        dataset = lance.dataset(uri)
        meanwhile()
        dataset.create_scalar_index(column, "BTREE", replace=True)

    def restore(self, uri: str, version: int, meanwhile: Meanwhile) -> None:
        dataset = lance.dataset(uri, version=version)
        meanwhile()
        dataset.restore()

    def tag(self, uri: str, name: str, version: int, meanwhile: Meanwhile) -> None:
        dataset = lance.dataset(uri)
        meanwhile()
        dataset.tags.create(name, version)

    def cleanup(self, uri: str) -> None:
        lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)


def _table(rows: Rows) -> pa.Table:
    return pa.table(
        [pa.array(list(rows), pa.int64()), pa.array(list(rows.values()), pa.int64())], ["id", "k"]
    )
