"""JSON columns in a compaction: documents pass as the files hold them."""

from pathlib import Path
from unittest.mock import patch

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.encoding.values import jsonb
from lance_ops.file.schema.json_values import stored_documents
from tests.support.interop import our_dataset

_TEXTS = ['{"a":{"c":true},"b":[1,-2.5,null,"ü"]}', None, "[]", "17", '"text"', "{}"]


def _documents(version: str) -> pa.Table:
    plain = pa.array(_TEXTS, pa.json_())
    filled = pa.array([text or "null" for text in _TEXTS], pa.json_())
    members = pa.StructArray.from_arrays([filled, pa.array(range(len(_TEXTS)))], names=["j", "n"])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4, 5, 6], pa.int32()), filled)
    fields = [pa.field("plain", plain.type), pa.field("struct", members.type), pa.field("list", lists.type)]
    columns = [plain, members, lists]
    if version == "2.2":
        fields.append(pa.field("packed", members.type, metadata={"lance-encoding:packed": "true"}))
        columns.append(members)
    return pa.table(columns, schema=pa.schema(fields))


@pytest.mark.peer
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("writer", ["ours", "peers"])
def test_no_document_is_made_text_of(version: str, writer: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    rows = _documents(version)
    for mode in ("create", "append"):
        write = lo.write_dataset if writer == "ours" else lance.write_dataset
        write(rows, uri, mode=mode, data_storage_version=version)
    before = lo.dataset(uri)
    lo.delete(uri, "struct.n = 4")

    with patch.object(jsonb, "jsonb_to_text", side_effect=AssertionError("a document was decoded")):
        lo.compact(uri)

    after = lo.dataset(uri)
    assert len(after.fragments) == 1
    assert after.lance_schema.fields == before.lance_schema.fields
    expected = [row for row in rows.to_pylist() * 2 if row["struct"]["n"] != 4]
    assert after.to_table().to_pylist() == expected
    assert lance.dataset(uri).to_table().to_pylist() == expected
    found = lance.dataset(uri).to_table(["plain"], filter="json_extract(plain, '$.a.c') = 'true'")
    assert found.num_rows == sum(row["plain"] == _TEXTS[0] for row in expected)


def test_documents_change_their_version_as_they_are(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    rows = _documents("2.0")
    lo.write_dataset(rows, uri, data_storage_version="2.0")
    lo.compact(uri, data_storage_version="2.1")
    assert lo.dataset(uri).to_table().to_pylist() == rows.to_pylist()


def test_a_schema_without_documents_is_the_one_that_it_was(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    our_dataset(uri, [10])
    schema = lo.dataset(uri).lance_schema
    assert stored_documents(schema) is schema
