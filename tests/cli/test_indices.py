"""`lance-ops indices`, and what `index` and `compact` are told about indices."""

import pyarrow as pa
import pytest

import lance_ops as lo
from tests.support.commands import lance_ops, lance_ops_json


@pytest.fixture
def uri(tmp_path):
    uri = tmp_path / "t.lance"
    for start in range(0, 40, 10):
        lo.append(uri, pa.table({"i": range(start, start + 10)}))
    return uri


def test_indices_are_listed_with_their_coverage_and_told_one_by_one(uri):
    lance_ops("index", uri, "i", "--kind", "zonemap", "--param", "rows_per_zone=4", "--name", "zones")
    lance_ops("index", uri, "i")
    lo.append(uri, pa.table({"i": range(10)}))
    shown = lance_ops("indices", uri).stdout
    assert "zones  ZoneMap  i              1    40     80.0%" in shown
    listed = lance_ops_json("indices", uri)["indices"]
    assert [(item["name"], item["coverage"], item["num_rows_unindexed"]) for item in listed] == [
        ("i_idx", 0.8, 10),
        ("zones", 0.8, 10),
    ]
    told = lance_ops_json("indices", uri, "--name", "zones")
    assert told["segments"] == [{"num_zones": 12, "rows_per_zone": 4}]
    lance_ops("index", uri, "--merge", "0")
    assert [item["num_segments"] for item in lance_ops_json("indices", uri)["indices"]] == [2, 2]


def test_a_remap_is_deferred_on_request_and_followed_later(uri):
    lance_ops("index", uri, "i")
    assert "readers translate" in lance_ops("compact", uri, "--defer-index-remap", "--dry-run").stdout
    done = lance_ops_json("compact", uri, "--defer-index-remap", "--on-unknown-index", "defer")
    assert (done["remaps_deferred"], done["rows_indexed_after"]) == (1, {"i_idx": 40})
    assert lance_ops_json("health", uri)["deferred_compactions"] == 1
    assert "1 compaction to follow" in lance_ops("health", uri).stdout
    assert "catch up" in lance_ops("index", uri, "--dry-run").stdout
    assert lance_ops_json("index", uri)["compactions_caught_up"] == 1
    assert lance_ops_json("health", uri)["deferred_compactions"] == 0


def test_an_index_is_renamed(uri):
    lance_ops("index", uri, "i")
    name = lance_ops_json("indices", uri)["indices"][0]["name"]
    assert f"renamed {name} to fresh" in lance_ops("index", uri, "--name", name, "--rename", "fresh").stdout
    assert "fresh" in {item["name"] for item in lance_ops_json("indices", uri)["indices"]}
