"""Carried fields: new files are committed only while their field ids mean what they meant when written."""

from dataclasses import replace

import lance
import pyarrow as pa
import pytest

from lance_ops.errors import RetryableCommitConflictError
from lance_ops.file.schema.model import Schema
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.data_file import TOMBSTONE
from lance_ops.table.transaction.operations import (
    CreateIndex,
    DataReplacement,
    Merge,
    Operation,
    Project,
    UpdateConfig,
)
from lance_ops.table.transaction.operations.config import MapUpdate
from tests.support.peer_operations import peer_operation
from tests.support.table_actions import commit
from tests.support.table_values import index
from tests.support.tables import append_operation, create, rewrite_operation, rows, update_operation


@pytest.fixture
def base(request) -> Dataset:
    return create(
        MemoryStore(f"memory://carried-fields/{request.node.name}"), rows(0, 10), rows_per_fragment=5
    )


def drop(dataset: Dataset, *names: str) -> Dataset:
    kept = [name for name in dataset.lance_schema.names if name not in names]
    return commit(dataset, Project(dataset.lance_schema.select(kept), preserves_nullability=True)).dataset


def add(dataset: Dataset, name: str, kind: pa.DataType, number: int) -> Dataset:
    (new,) = Schema.from_arrow(pa.schema([(name, kind)]), first_id=number).fields
    whole = replace(dataset.lance_schema, fields=(*dataset.lance_schema.fields, new))
    operation = Merge(tuple(dataset.fragments), whole, preserves_nullability=True, schema_only=True)
    return commit(dataset, operation).dataset


MAKE = {
    "append": lambda base: append_operation(base, rows(100, 103)),
    "update": lambda base: update_operation(base, {0: [1]}, rows(200, 201)),
    "rewrite": lambda base: rewrite_operation(base, [0, 1], new_ids=[7]),
    "index": lambda base: CreateIndex((replace(index("b_idx", {0}, fields=(1,)), dataset_version=1),)),
    "metadata": lambda base: UpdateConfig(field_metadata={1: MapUpdate({"k": "v"})}),
    "replacement": lambda base: DataReplacement(
        ((0, append_operation(base, rows(0, 5)).fragments[0].files[0]),)
    ),
}


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("type_of_b", [pa.string(), pa.int64()], ids=["same type", "other type"])
def test_an_id_that_was_given_to_another_column_is_a_conflict(base, kind, type_of_b):
    operation: Operation = MAKE[kind](base)
    add(drop(base, "b"), "other", type_of_b, 1)
    with pytest.raises(Exception, match=r"dropped|were written|gone|Merge|replaces") as caught:
        commit(base, operation)
    assert caught.value.__class__.__name__.endswith("ConflictError")
    assert Dataset.open(base.store).version == 3


def test_an_append_keeps_nothing_under_the_id_of_a_column_that_was_dropped_meanwhile(base):
    operation = append_operation(base, rows(100, 103))
    head = drop(base, "b")
    done = commit(base, operation).dataset
    assert [file.fields for file in done.fragments[-1].files] == [(0, TOMBSTONE)]
    assert done.to_table() == pa.concat_tables([head.to_table(), rows(100, 103).select(["a"])])


@pytest.mark.peer
def test_a_new_column_does_not_take_an_id_that_files_use_by_now(tmp_path):
    base = create(str(tmp_path / "t.lance"), rows(0, 10))
    late = append_operation(base, rows(100, 103))
    smaller = drop(base, "b")
    (new,) = Schema.from_arrow(pa.schema([("c", pa.string())]), first_id=1).fields
    whole = replace(smaller.lance_schema, fields=(*smaller.lance_schema.fields, new))
    operation = Merge(tuple(smaller.fragments), whole, preserves_nullability=True, schema_only=True)
    # The peer carries an append over the drop, and keeps the id in its files.
    lance.LanceDataset.commit(base.uri, peer_operation(late), read_version=base.version)
    with pytest.raises(RetryableCommitConflictError, match="field id 1 is in use"):
        commit(smaller, operation)
