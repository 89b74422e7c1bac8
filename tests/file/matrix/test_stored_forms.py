"""Types that are stored as others: views and JSON, in both directions."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from tests.file.matrix.cells import VERSIONS, assert_same
from tests.support.arrays import random_array

pytestmark = pytest.mark.peer

PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("view", PLAIN, ids=str)
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_views_are_stored_as_what_they_show(
    view: pa.DataType, version: str, nulls: float, tmp_path: Path
) -> None:
    array = random_array(view, 1025, nulls=nulls)
    expected = pa.table({"c": array.cast(PLAIN[view])})
    lo.write_dataset(pa.table({"c": array}), str(tmp_path / "ours"), data_storage_version=version)
    assert_same(lance.dataset(str(tmp_path / "ours")).to_table(), expected)
    assert_same(lo.dataset(str(tmp_path / "ours")).to_table(), expected)
    lance.write_dataset(pa.table({"c": array}), str(tmp_path / "peer"), data_storage_version=version)
    assert_same(lo.dataset(str(tmp_path / "peer")).to_table(), expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_json_in_large_strings_is_json(version: str, tmp_path: Path) -> None:
    """The format has one type of JSON; each way in takes the documents as pylance does."""

    def rows(text: pa.DataType) -> pa.Table:
        storage = pa.array(['{"a":1}', None, "[]"], text)
        documents = pa.ExtensionArray.from_storage(pa.json_(text), storage)
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), documents)
        structs = pa.StructArray.from_arrays([documents], ["d"])
        return pa.table({"id": [1, 2, 3], "c": documents, "l": lists, "s": structs})

    uri, theirs = str(tmp_path / "ours"), str(tmp_path / "peer")
    large, plain = rows(pa.large_string()), rows(pa.string())
    lance.write_dataset(large, theirs, data_storage_version=version)
    lance.write_dataset(large, theirs, mode="append")
    lo.write_dataset(large, uri, data_storage_version=version)
    lo.append(uri, large)
    assert_same(lo.dataset(uri).to_table(), lo.dataset(theirs).to_table())
    lo.merge_insert(uri, large.slice(0, 1), "id", when_matched="delete")
    lo.merge_insert(uri, large, "id", when_not_matched="insert_all")
    lo.add_columns(uri, pa.table({"e": pa.chunked_array([large["c"].combine_chunks()] * 2).slice(0, 5)}))
    found = lance.dataset(uri).to_table()
    assert sorted(found["id"].to_pylist()) == [1, 2, 2, 3, 3]
    assert found.schema.field("e").type == found.schema.field("c").type == pa.json_()
    wanted = dict(zip(plain["id"].to_pylist(), plain.drop_columns(["id"]).to_pylist(), strict=True))
    assert all(row == wanted[row.pop("id")] for row in found.drop_columns(["e"]).to_pylist())


@pytest.mark.parametrize("version", VERSIONS)
def test_json_is_text_on_both_sides(version: str, tmp_path: Path) -> None:
    texts = [None if n % 7 == 0 else f'{{"list":[{n},null,"x"],"n":{n}}}' for n in range(1025)]
    table = pa.table({"c": pa.array(texts, pa.json_())})
    lo.write_dataset(table, str(tmp_path / "ours"), data_storage_version=version)
    lance.write_dataset(table, str(tmp_path / "peer"), data_storage_version=version)
    for uri in ("ours", "peer"):
        theirs = lance.dataset(str(tmp_path / uri)).to_table()
        assert_same(lo.dataset(str(tmp_path / uri)).to_table(), theirs)
        assert theirs["c"].to_pylist() == texts
