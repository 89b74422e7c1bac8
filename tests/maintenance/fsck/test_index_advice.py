"""The command that fsck prints for a damaged index is run as printed: then the table is sound."""

import json
import shlex
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.registry import kind_of
from tests.support.commands import lance_ops

pytestmark = pytest.mark.peer

ROWS = 40
INDICES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "btree": ("number", "BTREE", {}),
    "bitmap": ("number", "BITMAP", {}),
    "zone_map": ("number", "ZONEMAP", {"rows_per_zone": 16}),
    "bloom_filter": ("number", "BLOOMFILTER", {"number_of_items": 64}),
    "label_list": ("labels", "LABEL_LIST", {}),
    "ngram": ("text", "NGRAM", {}),
    "inverted": ("text", "INVERTED", {"with_position": True, "stem": False}),
    "json": ("document", "JSON", {"path": "a", "target_index_type": "btree"}),
    "vector": ("vector", "IVF_PQ", {"metric": "dot", "num_sub_vectors": 4, "num_partitions": 2}),
    "graph": ("vector", "IVF_HNSW_SQ", {"metric": "cosine", "m": 8}),
    "several": ("vectors", "IVF_FLAT", {"metric": "cosine"}),
}


def rows() -> pa.Table:
    random = np.random.default_rng(4)
    vectors = random.normal(size=(ROWS, 2, 8)).astype("float32")
    documents = [json.dumps({"a": number}) for number in range(ROWS)]
    return pa.table(
        {
            "number": range(ROWS),
            "text": [f"word{number % 7} another" for number in range(ROWS)],
            "labels": [["x", f"l{number % 3}"] for number in range(ROWS)],
            "document": pa.array(documents, pa.json_()),
            "vector": pa.array(vectors[:, 0].tolist(), pa.list_(pa.float32(), 8)),
            "vectors": pa.array(vectors.tolist(), pa.list_(pa.list_(pa.float32(), 8))),
        }
    )


def follow_advice(uri: str) -> str:
    """Run the command that fsck prints; returns it."""
    messages = [finding.message for finding in lo.fsck(uri, deep=True).findings]
    (message,) = [message for message in messages if "lance-ops index" in message]
    command = message[message.index("lance-ops index") :]
    assert command.startswith("lance-ops index URI ")
    lance_ops(*[uri if word == "URI" else word for word in shlex.split(command)[1:]])
    assert lo.fsck(uri, deep=True).findings == ()
    return command


@pytest.mark.parametrize(("case", "name"), [*((case, None) for case in INDICES), ("bitmap", "of my own")])
def test_a_damaged_index_is_built_anew_as_it_was(tmp_path: Path, case: str, name: str | None) -> None:
    column, kind, parameters = INDICES[case]
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(), uri, data_storage_version="2.2")
    lo.create_index(uri, column, kind, parameters=parameters, name=name)
    (before,) = lo.dataset(uri).indices
    for file in (tmp_path / "t.lance" / "_indices").rglob("*.*"):
        file.write_bytes(file.read_bytes()[:-7])
    follow_advice(uri)
    (after,) = lo.dataset(uri).indices
    assert (after.name, after.fields, after.kind) == (before.name, before.fields, before.kind)
    assert after.uuid != before.uuid
    known = kind_of(after)
    assert known is not None
    assert known.name == kind
    if kind.startswith("IVF"):
        # Where no file can be read, the manifest still says how distances are measured.
        assert known.recorded_parameters(after)["metric"] == parameters["metric"]


@pytest.mark.parametrize("column", ["n", "s.n"])
def test_zone_maps_of_pylance_on_columns_of_nulls_are_dropped(tmp_path: Path, column: str) -> None:
    """pylance finds no null by them, and no index of any kind can be built on such a column here."""
    uri = str(tmp_path / "t.lance")
    struct = pa.StructArray.from_arrays([pa.nulls(20)], ["n"])
    dataset = lance.write_dataset(pa.table({"id": range(20), "n": pa.nulls(20), "s": struct}), uri)
    dataset.create_scalar_index(column, "ZONEMAP")
    wanted = f"{column} IS NULL"
    assert lance.dataset(uri).count_rows(filter=wanted) == 0
    assert lo.dataset(uri).count_rows(filter=wanted) == 20
    assert "--drop" in follow_advice(uri)
    assert lance.dataset(uri).count_rows(filter=wanted) == 20
