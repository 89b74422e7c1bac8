"""Indices as early releases of the peer wrote them: read where that is right, else a scan with a warning."""

import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.inverted.layout import METADATA, SegmentLayout
from lance_ops.index.vector.segment.read import STORAGE_FILE
from lance_ops.table.transaction.operations import CreateIndex
from tests.support.table_actions import commit


def test_words_of_a_segment_of_another_layout_are_cut_as_it_says(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"id": [0, 1, 2], "w": ["Running far", "a run", "RUN"]}), uri)
    lo.create_index(uri, "w", "INVERTED", parameters={"stem": True, "ascii_folding": False})
    query = {"full_text_query": {"query": "run", "columns": ["w"]}, "limit": 10}
    found = lo.dataset(uri).to_table(["id"], **query).sort_by("id")
    assert found["id"].to_pylist() == [0, 1, 2]
    dataset = lo.dataset(uri)
    store, directory = dataset.bases.index_directory(dataset.indices[0])
    said = SegmentLayout.read(store, directory).parameters.to_json()
    store.delete(f"{directory}/{METADATA}")
    schema = Schema.from_arrow(pa.schema([("_token", pa.string())]))
    with FileWriter(store, f"{directory}/tokens.lance", schema, version="2.0") as writer:
        writer.add_schema_metadata({"tokenizer": said.encode()})
        writer.write(pa.table({"_token": ["run"]}))
        writer.finish()
    with pytest.warns(UnreadableIndexWarning, match="scanned instead"):
        scanned = lo.dataset(uri).to_table(["id"], **query).sort_by("id")
    assert scanned["id"].to_pylist() == [0, 1, 2]
    lo.append(uri, pa.table({"id": [3], "w": ["runs"]}))
    for options in ({}, {"merge_segments": 0}):
        assert "left unchanged" in lo.optimize_indices(uri, **options).skipped[0]
    assert lo.optimize_indices(uri, rebuild=True).skipped == ()
    (rebuilt,) = lo.dataset(uri).indices
    assert SegmentLayout.read(store, rebuilt.directory).parameters.to_json() == said


def test_null_vectors_that_a_segment_stores_are_passed_over(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    vectors = np.random.default_rng(1).normal(size=(600, 4)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    lo.write_dataset(pa.table({"id": range(600), "v": column}), uri, max_rows_per_file=300)
    lo.create_index(uri, "v", "IVF_FLAT", parameters={"num_partitions": 2})
    # What is stored without a vector is deleted: nobody is to find it.
    dataset = lo.dataset(uri)
    store, directory = dataset.bases.index_directory(dataset.indices[0])
    path = f"{directory}/{STORAGE_FILE}"
    reader = FileReader.open(store, path)
    rows = reader.read_table()
    gone = np.asarray(rows["_rowid"].to_numpy()) % 50 == 7
    flat = pa.FixedSizeListArray.from_arrays(rows["flat"].combine_chunks().flatten(), 4, mask=pa.array(gone))
    stored = pa.table({"_rowid": rows["_rowid"], "flat": flat})
    buffers = [reader.global_buffer(number) for number in range(1, reader.num_global_buffers)]
    store.delete(path)
    with FileWriter(store, path, Schema.from_arrow(stored.schema), version="2.0") as writer:
        for buffer in buffers:
            writer.add_global_buffer(buffer)
        writer.add_schema_metadata(reader.schema.metadata)
        writer.write(stored)
        writer.finish()
    addresses = np.asarray(rows["_rowid"].to_numpy())[gone]
    ids = [(int(address) >> 32) * 300 + (int(address) & 0xFFFFFFFF) for address in addresses]
    lo.delete(uri, f"id IN ({', '.join(map(str, ids))})")

    def check() -> None:
        for vector in vectors[:5]:
            query = {"column": "v", "q": vector, "k": 8, "nprobes": 2}
            found = lo.dataset(uri).to_table(["id"], nearest=query)["id"].to_pylist()
            scanned = lo.dataset(uri).to_table(["id"], nearest={**query, "use_index": False})
            assert found == scanned["id"].to_pylist()

    check()
    lo.append(uri, pa.table({"id": range(600, 650), "v": column.slice(0, 50)}))
    assert lo.optimize_indices(uri, merge_segments=9).skipped == ()
    check()
    lo.compact(uri)
    check()


def test_fragments_under_a_segment_of_another_layout_stay_where_its_readers_look_for_them(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "t.lance")
    table = pa.table({"id": range(100), "w": ["far", "away"] * 50})
    lo.write_dataset(table, uri, max_rows_per_file=25)
    lo.create_index(uri, "w", "INVERTED")
    dataset = lo.dataset(uri)
    (segment,) = dataset.indices
    store, directory = dataset.bases.index_directory(segment)
    store.delete(f"{directory}/{METADATA}")
    # As releases up to 0.25 leave it: without this file, and without a version of the index.
    old = replace(segment, uuid=uuid.uuid4(), index_version=None, files=())
    (tmp_path / "t.lance" / segment.directory).rename(tmp_path / "t.lance" / old.directory)
    commit(dataset, CreateIndex((old,), (segment,)))
    lo.append(uri, table)
    lo.append(uri, table)
    plan = lo.compact(uri, dry_run=True)
    assert {fragment for group in plan.groups for fragment in group.fragment_ids} == {4, 5}
    lo.compact(uri)
    (kept,) = lo.dataset(uri).indices
    assert kept.fragment_ids == {0, 1, 2, 3}
    assert {0, 1, 2, 3} <= {fragment.id for fragment in lo.dataset(uri).fragments}
