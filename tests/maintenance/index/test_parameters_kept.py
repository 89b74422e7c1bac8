"""Parameters that pylance gave an index stay through refreshes, rebuilds and compactions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.index.registry import parameters_as_made

pytestmark = pytest.mark.peer

ROWS = 600
PAGE = 50

KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "BTREE": ("number", "btree", {"zone_size": PAGE}),
    "BTREE of a row a page": ("number", "btree", {"zone_size": 1}),
    "BTREE in one page": ("number", "btree", {"zone_size": 1 << 40}),
    "ZONEMAP": ("number", "zonemap", {"rows_per_zone": PAGE}),
    "BLOOMFILTER": ("number", "bloomfilter", {"number_of_items": PAGE, "probability": 0.02}),
    "JSON": (
        "document",
        "json",
        {"path": "a", "target_index_type": "btree", "target_index_parameters": f'{{"zone_size": {PAGE}}}'},
    ),
}
WAYS: dict[str, Callable[[str], object]] = {
    "refresh": lambda uri: lo.optimize_indices(uri, merge_segments=0),
    "merge": lambda uri: lo.optimize_indices(uri, merge_segments=9),
    "rebuild": lambda uri: lo.optimize_indices(uri, rebuild=True),
    "compact": lo.compact,
    "compact later": lambda uri: (lo.compact(uri, defer_index_remap=True), lo.optimize_indices(uri)),
}


def rows(start: int = 0) -> pa.Table:
    numbers = range(start, start + ROWS)
    documents = [json.dumps({"a": number}) for number in numbers]
    return pa.table({"number": numbers, "document": pa.array(documents, pa.json_())})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_kept(tmp_path: Path, kind: str, way: str) -> None:
    uri = str(tmp_path / "t.lance")
    column, name, parameters = KINDS[kind]
    lance.write_dataset(rows(), uri, max_rows_per_file=ROWS // 2, data_storage_version="2.2")
    config = IndexConfig(index_type=name, parameters=parameters)
    lance.dataset(uri).create_scalar_index(column, config, name="x")
    before = parameters_as_made(lo.dataset(uri), lo.dataset(uri).indices)
    lo.append(uri, rows(ROWS))
    lo.delete(uri, "number % 10 = 3")
    WAYS[way](uri)
    head = lo.dataset(uri)
    assert head.version > 4
    for segment in head.indices:
        if segment.name == "x":
            assert parameters_as_made(head, [segment]) == before
    condition = f"number = {ROWS + 7}" if name != "json" else f"json_get_int(document, 'a') = {ROWS + 7}"
    assert lance.dataset(uri).to_table(filter=condition)["number"].to_pylist() == [ROWS + 7]
    assert lo.dataset(uri).to_table(filter=condition)["number"].to_pylist() == [ROWS + 7]
    assert lo.fsck(uri, deep=True).ok


def test_pages_of_a_new_btree(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.append(uri, rows())
    lo.create_index(uri, "number", name="x", zone_size=PAGE)
    (found,) = lance.dataset(uri).stats.index_stats("x")["indices"]
    assert found["num_pages"] == ROWS // PAGE
    assert lance.dataset(uri).to_table(filter="number = 77").num_rows == 1
    for wrong in (0, -1, 2.5, True, "9", 1 << 40):
        with pytest.raises(InvalidArgumentError, match="zone_size"):
            lo.create_index(uri, "number", name="y", parameters={"zone_size": wrong})
