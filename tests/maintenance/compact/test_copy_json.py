"""Documents of JSON are written anew: the peer does not read their copied pages."""

import json

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.maintenance.compact.groups import Method

pytestmark = pytest.mark.peer


def test_the_peer_reads_documents_after_a_compaction(tmp_path) -> None:
    uri = str(tmp_path / "t.lance")
    documents = [json.dumps({"a": number % 10}) if number % 9 else None for number in range(60)]
    table = pa.table({"id": range(60), "j": pa.array(documents, pa.json_())})
    lance.write_dataset(table, uri, max_rows_per_file=30)
    # The plan says so: no file is opened in vain.
    (group,) = lo.compact(uri, method="copy", dry_run=True).groups
    assert group.method.method is Method.REWRITE
    assert "JSON documents" in group.method.reason
    result = lo.compact(uri, method="copy")
    assert (result.groups_copied, result.notes) == (0, ())
    assert len(lo.dataset(uri).fragments) == 1
    found = lance.dataset(uri).to_table(columns=["id"], filter="json_get_int(j, 'a') = 3")
    assert found["id"].to_pylist() == [3, 13, 23, 33, 43, 53]
