"""Compaction changes no answer: rows and their order, ids and versions of rows, what indices find.

Whatever happened to the table before, and whichever method brings its rows into new files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo

pytestmark = pytest.mark.peer

ROWS = 40
VERSIONS = ("2.0", "2.1", "2.2")
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
STEPS = ("append", "delete", "update", "null", "null nested", "computed", "drop", "other version")

# Kind of an index: its column, and what is asked of it.
INDICES: Mapping[str, tuple[str, list[dict[str, Any]]]] = {
    "BTREE": ("id", [{"filter": "id BETWEEN 25 AND 95"}, {"filter": "id = 41"}]),
    "BITMAP": ("k", [{"filter": "k = 3"}, {"filter": "k IS NULL"}]),
    "ZONEMAP": ("value", [{"filter": "value < 0.2"}]),
    "BLOOMFILTER": ("k", [{"filter": "k = 5"}]),
    "LABEL_LIST": ("labels", [{"filter": "array_has(labels, 't2')"}]),
    "NGRAM": ("name", [{"filter": "contains(name, 'er 17')"}]),
    "INVERTED": ("name", [{"full_text_query": "customer17"}, {"full_text_query": "w3"}]),
    # As many as there are: of fewer, the peer counts deleted rows in as long as the index has them.
    "IVF_FLAT": ("vector", [{"nearest": {"column": "vector", "q": [0.5] * 4, "k": 900, "nprobes": 2}}]),
}


def table(start: int, *, blobs: bool, seed: int, rows: int = ROWS) -> pa.Table:
    draw = np.random.default_rng(seed + start)
    ids = np.arange(start, start + rows)
    columns: dict[str, Any] = {
        "id": pa.array(ids),
        "k": pa.array([None if n % 11 == 5 else n % 7 for n in ids.tolist()], pa.int32()),
        "value": pa.array(draw.random(rows)),
        "name": pa.array([f"customer{n % 23} customer {n % 29} w{n % 5}" for n in ids.tolist()]),
        "labels": pa.array([[f"t{n % 5}", f"u{n % 3}"][: n % 3] for n in ids.tolist()]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(draw.random(4 * rows).astype(np.float32)), 4),
        "pair": pa.array([{"a": n, "b": [str(n)] * (n % 3)} for n in ids.tolist()]),
    }
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    if blobs:
        columns["blob"] = pa.array([bytes([n % 256]) * (n % 50) for n in ids.tolist()], pa.large_binary())
        fields.append(pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}))
    return pa.table(columns, schema=pa.schema(fields))


def build(uri: str, kinds: list[str]) -> None:
    for number, kind in enumerate(kinds):
        column, _ = INDICES[kind]
        name = f"index_{number}"
        if kind == "IVF_FLAT":
            lance.dataset(uri).create_index(column, kind, name=name, num_partitions=2)
        else:
            lance.dataset(uri).create_scalar_index(column, kind, name=name)


def change(uri: str, step: str, number: int, *, blobs: bool, seed: int) -> None:
    schema = lance.dataset(uri).schema
    half = number % 2 == 1
    if step == "append":
        rows = table(1000 * (number + 1), blobs=blobs, seed=seed, rows=ROWS // 2)
        for field in schema:
            if field.name not in rows.schema.names:
                values = [[n] if pa.types.is_list(field.type) else n for n in range(len(rows))]
                rows = rows.append_column(field, pa.array(values, field.type))
        rows = rows.select(schema.names)
        if half:
            lo.append(uri, rows)
        else:
            lance.write_dataset(rows, uri, mode="append")
    elif step == "delete":
        where = f"id % 9 = {number}" if half else f"id BETWEEN {20 + 10 * number} AND {35 + 12 * number}"
        if number % 3:
            lo.delete(uri, where, max_fraction=1.0)
        else:
            lance.dataset(uri).delete(where)
    elif step == "update":
        lo.update(uri, {"value": "value / 2"}, where=f"id % 8 = {number}")
    elif step == "null":
        lance.dataset(uri).add_columns(pa.schema([(f"n{number}", pa.int64())]))
    elif step == "null nested":
        lance.dataset(uri).add_columns(pa.schema([(f"l{number}", pa.list_(pa.int64()))]))
    elif step == "computed":
        lo.add_columns(uri, {f"c{number}": "id * 2"})
    elif step == "drop" and "pair" in schema.names:
        lo.drop_columns(uri, ["pair"])
    elif step == "other version":
        # Some files become 2.1 or 2.2, whatever the others are.
        version = "2.1" if blobs or half else "2.2"
        lo.compact(uri, data_storage_version=version, max_source_fragments=2)


def rows_of(uri: str, *, stable: bool, blobs: bool) -> list[list[str]]:
    """Rows in their order as either side reads them, with what stable row ids promise."""
    schema = lance.dataset(uri).schema
    names = [name for name in schema.names if name != "blob"] + (LINEAGE if stable else [])
    found = [
        list(map(repr, reader.dataset(uri).to_table(columns=names).to_pylist())) for reader in (lo, lance)
    ]
    if blobs:
        dataset = lance.dataset(uri)
        taken = dataset.take_blobs("blob", indices=list(range(dataset.count_rows())))
        found = [
            [f"{row}{blob.readall()!r}" for row, blob in zip(rows, taken, strict=True)] for rows in found[1:]
        ]
    return found


def answers(uri: str, kinds: list[str]) -> dict[tuple[str, str, int], list[int]]:
    found = {}
    for kind in kinds:
        for number, query in enumerate(INDICES[kind][1]):
            for name, reader in (("ours", lo), ("peer", lance)):
                result = reader.dataset(uri).to_table(columns=["id"], **query)
                ids = result["id"].to_pylist()
                found[name, kind, number] = ids if kind == "IVF_FLAT" else sorted(ids)
    return found


@settings(max_examples=12, deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    stable=st.booleans(),
    blobs=st.booleans(),
    kinds=st.lists(st.sampled_from(sorted(INDICES)), max_size=3, unique_by=lambda kind: INDICES[kind][0]),
    steps=st.lists(
        st.sampled_from(
            [
                "append",
                "delete",
                "delete",
                "update",
                "null",
                "null nested",
                "computed",
                "drop",
                "other version",
            ]
        ),
        max_size=5,
    ),
    fragments=st.integers(2, 4),
    method=st.sampled_from(["auto", "copy", "copy", "rewrite"]),
    deferred=st.booleans(),
    seed=st.integers(0, 9),
)
def test_nothing_that_can_be_asked_for_changes(
    tmp_path_factory, version, stable, blobs, kinds, steps, fragments, method, deferred, seed
) -> None:
    blobs = blobs and version != "2.2"
    path: Path = tmp_path_factory.mktemp("same") / "t.lance"
    uri = str(path)
    rows = table(0, blobs=blobs, seed=seed, rows=fragments * ROWS)
    lance.write_dataset(
        rows, uri, max_rows_per_file=ROWS, data_storage_version=version, enable_stable_row_ids=stable
    )
    build(uri, kinds)
    for number, step in enumerate(steps):
        change(uri, step, number, blobs=blobs, seed=seed)
    before, asked = rows_of(uri, stable=stable, blobs=blobs), answers(uri, kinds)
    ids = sorted(lo.dataset(uri).to_table(columns=["id"])["id"].to_pylist())
    old = {fragment.id for fragment in lo.dataset(uri).fragments}
    result = lo.compact(
        uri, method=method, materialize_deletions_threshold=0.0, defer_index_remap=deferred and not stable
    )
    # What is rewritten the plan said before.
    assert not any("were rewritten, not copied" in note for note in result.notes)
    after = rows_of(uri, stable=stable, blobs=blobs)
    if {fragment.id for fragment in lo.dataset(uri).fragments} & old:
        # What was left alone comes first by now, as with the peer.
        before, after = [sorted(rows) for rows in before], [sorted(rows) for rows in after]
    assert after == before
    assert answers(uri, kinds) == asked
    for name, covered in result.rows_indexed_before.items():
        assert result.rows_indexed_after[name] == covered, name
    assert lo.fsck(uri, deep=True).ok
    # Both go on with what it made.
    lance.dataset(uri).optimize.optimize_indices()
    assert answers(uri, kinds) == asked
    lance.dataset(uri).delete("id % 5 = 1")
    lo.compact(uri, method=method, materialize_deletions_threshold=0.0)
    left = [number for number in ids if number % 5 != 1]
    for reader in (lo, lance):
        assert sorted(reader.dataset(uri).to_table(columns=["id"])["id"].to_pylist()) == left
