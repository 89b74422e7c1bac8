"""JSON: which documents can be indexed, what is said of the values, and what is asked of which index."""

import json
import pickle
from pathlib import Path

import lance
import lance.file
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, TaskFailedError, UnreadableIndexWarning
from lance_ops.index.json.view import ExtractedDataset, Extraction
from lance_ops.index.registry import kind_of
from lance_ops.index.search.pruner import IndexPruner

pytestmark = pytest.mark.peer


def write(uri: Path, documents: list[object]) -> None:
    texts = [None if document is None else json.dumps(document) for document in documents]
    rows = pa.table({"id": range(len(texts)), "j": pa.array(texts, pa.json_())})
    lo.write_dataset(rows, uri, data_storage_version="2.2")


def stored(uri: Path, file: str = "page_data.lance") -> pa.ChunkedArray:
    (found,) = (uri / "_indices").glob(f"*/{file}")
    return lance.file.LanceFileReader(str(found)).read_all().to_table().column(0)


def asks(uri: Path, sql: str) -> list[str]:
    """Names of the indices that we ask; the answer has to be that of a scan."""
    dataset = lo.dataset(uri)
    pruning = IndexPruner().prune(dataset, dataset.parse_filter(sql))
    expected = dataset.to_table(["id"], sql, pruners=[])
    assert dataset.to_table(["id"], sql, pruners=[IndexPruner()]).equals(expected)
    return [] if pruning is None else [use.index for use in pruning.uses]


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([1, None, -(2**63)], pa.int64()),
        ([2.5, 1], pa.float64()),
        ([2**63, 1], pa.float64()),
        ([None, "x", ""], pa.string()),
        ([True, False], pa.bool_()),
        ([], pa.string()),
    ],
)
@pytest.mark.parametrize(("target", "file"), [("btree", "page_data"), ("bitmap", "bitmap_page_lookup")])
def test_values_and_their_type_are_those_of_the_peer(
    tmp_path: Path, values: list[object], data_type: pa.DataType, target: str, file: str
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for uri in (ours, theirs):
        write(uri, [None, {}, *({"a": value} for value in values)])
    options = {"path": "a", "target_index_type": target}
    lo.create_index(ours, "j", "json", parameters=options)
    peer = lance.dataset(str(theirs))
    peer.create_scalar_index("j", IndexConfig(index_type="json", parameters=options), name="j_idx")
    mine = stored(ours, f"{file}.lance")
    assert mine.type == data_type
    assert mine.equals(stored(theirs, f"{file}.lance"))
    (one,), (other,) = lo.dataset(ours).indices, lo.dataset(theirs).indices
    assert (one.details, one.index_version) == (other.details, other.index_version)


@pytest.mark.parametrize("values", [[{"z": 1}], [[1]], [1, "x"], ["x", {}], [True, "x"], [1.5, "x"]])
def test_values_that_the_peer_refuses_and_that_do_not_convert_are_refused(
    tmp_path: Path, values: list[object]
) -> None:
    write(tmp_path / "t", [{"a": value} for value in values])
    with pytest.raises((InvalidArgumentError, TaskFailedError), match="cannot be indexed"):
        lo.create_index(tmp_path / "t", "j", "json", parameters={"path": "a"})
    assert not lo.dataset(tmp_path / "t").indices


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "needs a path"),
        ({"path": "a[?("}, "JSON path"),
        ({"path": 3}, "a path within documents"),
        ({"path": "a", "target": "wood"}, "kind 'wood'"),
        ({"path": "a", "target": "json"}, "kind 'json'"),
        ({"path": "a", "target": "inverted"}, "the target INVERTED"),
        ({"path": "a", "target_data_type": "date"}, "unknown target_data_type"),
        ({"path": "a", "colour": 1}, "no parameter 'colour'"),
        ({"path": "a", "target_index_parameters": {"colour": 1}}, "no parameter 'colour'"),
    ],
)
def test_parameters_that_make_no_sense_are_named(
    tmp_path: Path, parameters: dict[str, object], message: str
) -> None:
    write(tmp_path / "t", [{"a": 1}])
    with pytest.raises(InvalidArgumentError, match=message):
        lo.create_index(tmp_path / "t", "j", "json", parameters=parameters)


def test_only_documents_are_indexed_so(tmp_path: Path) -> None:
    write(tmp_path / "t", [{"a": 1}])
    with pytest.raises(InvalidArgumentError, match="no JSON documents"):
        lo.create_index(tmp_path / "t", "id", "json", parameters={"path": "a"})


def test_each_question_goes_to_the_index_of_its_path_and_type(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    documents = [{"n": k % 5, "s": f"k{k % 3}", "in": {"x": k % 2}, "list": [k % 4]} for k in range(50)]
    write(uri, [*documents, None, {}])
    for path, target in (("n", "btree"), ("$.s", "bitmap"), ("$.in.x", "btree"), ("list[0]", "btree")):
        lo.create_index(uri, "j", "json", name=f"of {path}", parameters={"path": path, "target": target})
    questions = {
        "json_get_int(j, 'n') = 3": ["of n"],
        "json_get_int(j, 'n') IS NULL": ["of n"],
        "json_extract(j, '$.n') = '3'": ["of n"],
        "json_extract(j, 'n') IN ('3', '4')": ["of n"],
        "json_get_string(j, 's') = 'k1' OR json_get_int(j, 'n') = 1": ["of $.s", "of n"],
        "json_get_string(j, 's') LIKE 'k%'": ["of $.s"],
        "json_extract(j, 's') = '\"k1\"'": ["of $.s"],
        "json_get_int(json_get(j, 'in'), 'x') = 1": ["of $.in.x"],
        "json_extract(j, '$.in.x') = '1'": ["of $.in.x"],
        "json_extract(j, 'list[0]') = '1'": ["of list[0]"],
        # The type, the path or the question is another.
        "json_get_float(j, 'n') = 3.0": [],
        "json_get_string(j, 'n') = '3'": [],
        "json_get_int(j, '$.in.x') = 1": [],
        "json_get_int(json_get(j, 'n'), 'x') = 1": [],
        "json_extract(j, 's') = 'k1'": [],
        "json_extract(j, 'n') > '3'": [],
        "json_exists(j, 'n')": [],
        "j IS NULL": [],
    }
    for sql, expected in questions.items():
        assert asks(uri, sql) == expected, sql


@pytest.mark.parametrize("document", [{"0": 5}, [5, 6], "text", 7])
def test_documents_of_other_shapes_answer_as_a_scan(tmp_path: Path, document: object) -> None:
    uri = tmp_path / "t"
    write(uri, [{"a": 1}, document])
    lo.create_index(uri, "j", "json", name="a", parameters={"path": "a"})
    lo.create_index(uri, "j", "json", name="0", parameters={"path": "0", "target_data_type": "int64"})
    for sql in ("json_get_int(j, 'a') = 1", "json_get_int(j, 'a') IS NULL", "json_get_int(j, '0') = 5"):
        asks(uri, sql)


def test_a_value_that_a_function_converts_is_found_converted(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    write(uri, [{"a": 1}, {"a": "1"}, {"a": 1.4}, {"a": True}])
    lo.create_index(uri, "j", "json", parameters={"path": "a"})
    assert asks(uri, "json_get_int(j, 'a') = 1") == ["j_idx"]
    assert lo.dataset(uri).count_rows("json_get_int(j, 'a') = 1") == 4
    assert asks(uri, "json_extract(j, 'a') = '1'") == ["j_idx"]
    assert lo.dataset(uri).count_rows("json_extract(j, 'a') = '1'") == 1


def test_the_statistics_are_those_of_the_other_kind(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    write(uri, [{"a": 1}, {"a": 2}])
    lo.create_index(uri, "j", "json", parameters={"path": "a", "target": "bitmap"})
    (segment,) = lo.dataset(uri).indices
    kind = kind_of(segment)
    assert kind is not None
    assert kind.statistics(lo.dataset(uri), segment) == {"num_bitmaps": 2}
    kind.verify(lo.dataset(uri), segment, deep=True)


def test_a_damaged_file_is_a_slower_scan_with_a_warning(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    write(uri, [{"a": 1}, {"a": 2}])
    lo.create_index(uri, "j", "json", parameters={"path": "a"})
    (file,) = (uri / "_indices").glob("*/page_lookup.lance")
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.warns(UnreadableIndexWarning, match="'j_idx' cannot be read"):
        assert lo.dataset(uri).count_rows("json_get_int(j, 'a') = 1") == 1


def test_the_view_of_the_values_travels_to_tasks(tmp_path: Path) -> None:
    write(tmp_path / "t", [{"a": 1}, None])
    view = ExtractedDataset(lo.dataset(tmp_path / "t"), Extraction("j", "a", "int64"))
    copied = pickle.loads(pickle.dumps(view))
    assert copied.to_batches(columns=["j"]).read_all()["j"].to_pylist() == [1, None]
    assert str(copied.lance_schema.field("j").file_type) == "int64"


def test_documents_that_cannot_be_indexed_keep_no_other_index_from_its_refresh(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    write(uri, [{"a": 1}])
    lo.create_index(uri, "j", "json", parameters={"path": "a"})
    lo.create_index(uri, "id")
    lo.append(uri, pa.table({"id": [1], "j": pa.array(['{"a": "x"}'], pa.json_())}))
    for merge_segments in (0, 1):
        done = lo.optimize_indices(uri, merge_segments=merge_segments)
        assert any("j_idx" in line and "cannot be indexed" in line for line in done.skipped)
    assert lo.dataset(uri).count_rows("id = 1") == 1
    assert asks(uri, "id = 1") == ["id_idx"]
    lo.delete(uri, "id = 1")
    lo.append(uri, pa.table({"id": [2], "j": pa.array(['{"a": 2}'], pa.json_())}))
    assert lo.optimize_indices(uri).coverage_after == 1.0
    assert asks(uri, "json_get_int(j, 'a') = 2") == ["j_idx"]


def test_questions_about_documents_find_what_the_ones_before_them_opened(tmp_path, monkeypatch):
    uri = tmp_path / "t.lance"
    lo.append(uri, pa.table({"d": pa.array(['{"a": 1}', '{"a": 2}'], pa.json_())}))
    lo.create_index(uri, "d", "JSON", parameters={"path": "a"})
    dataset = lo.dataset(uri)
    asked = "json_get_int(d, 'a') = 2"
    assert dataset.count_rows(asked) == 1
    (lookup,) = (uri / "_indices").glob("*/page_lookup.lance")
    lookup.rename(lookup.with_name("gone"))
    assert dataset.count_rows(asked) == 1
    with pytest.warns(lo.errors.UnreadableIndexWarning):
        assert lo.dataset(uri).count_rows(asked) == 1
