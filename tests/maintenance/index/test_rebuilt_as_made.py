"""No index is rebuilt with defaults where nothing here can read, or honour, how it was made."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.query import DocumentGranularity, MatchQuery

import lance_ops as lo
from lance_ops.errors import LanceOpsError, UnreadableIndexError, UnsupportedError
from lance_ops.index.inverted.layout import METADATA, SegmentLayout
from lance_ops.index.vector.segment.read import VectorSegment
from lance_ops.maintenance.index.several import WantedIndex, build_indices
from lance_ops.pb import table_pb2
from lance_ops.spark.sql.indices import create_named_index, maintain_index
from lance_ops.spark.sql.statements import CreateIndex as CreateNamed
from lance_ops.spark.sql.statements import MaintainIndex
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.transaction.operations import CreateIndex
from tests.support.commands import lance_ops
from tests.support.geometries import values
from tests.support.table_actions import commit

pytestmark = pytest.mark.peer

ROWS = 40
SQL: dict[str, Any] = {"storage_options": None}
"""Options of statements of Spark SQL."""
LATER_FIELD = b"\xf2\x3f\x03new"
"""Field 1022 of a message."""


def rows() -> pa.Table:
    random = np.random.default_rng(3)
    table = pa.table(
        {
            "number": range(ROWS),
            "text": [f"word{number % 7} another" for number in range(ROWS)],
            "texts": [["red apple", f"green {number}"] for number in range(ROWS)],
            "document": pa.array([json.dumps({"a": f"w{number}"}) for number in range(ROWS)], pa.json_()),
            "vector": pa.array(random.normal(size=(ROWS, 8)).tolist(), pa.list_(pa.float32(), 8)),
        }
    )
    places = values(range(ROWS))
    return table.append_column(places.schema.field("p"), places["p"])


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "BTREE": ("number", {}),
    "BITMAP": ("number", {}),
    "ZONEMAP": ("number", {"rows_per_zone": 16}),
    "BLOOMFILTER": ("number", {"number_of_items": 64}),
    "NGRAM": ("text", {}),
    "LABEL_LIST": ("texts", {}),
    "INVERTED": ("text", {"stem": False, "custom_stop_words": ["another"]}),
    "JSON": ("document", {"path": "a", "target_index_type": "zonemap"}),
    "RTREE": ("p", {"page_size": 16}),
    "IVF_PQ": ("vector", {"metric": "dot", "num_sub_vectors": 4, "num_partitions": 2}),
    "IVF_RQ": ("vector", {"metric": "cosine", "num_bits": 3, "num_partitions": 2}),
    "IVF_HNSW_SQ": ("vector", {"metric": "cosine", "m": 8, "num_partitions": 1}),
}
WITH_PARAMETERS = [name for name, (_, parameters) in KINDS.items() if parameters]


def made(path: Path, kind: str) -> str:
    """Two fragments under an index `x` of a kind, and rows that it does not cover."""
    uri = str(path / "t.lance")
    column, parameters = KINDS[kind]
    lance.write_dataset(rows(), uri, max_rows_per_file=20, data_storage_version="2.2")
    lo.create_index(uri, column, kind, name="x", parameters=parameters)
    lo.append(uri, rows().slice(0, 5))
    return uri


def recommitted(uri: str, change: Callable[[IndexMetadata], IndexMetadata]) -> None:
    (segment,) = lo.dataset(uri).indices
    commit(lo.dataset(uri), CreateIndex((), (segment,)))
    commit(lo.dataset(uri), CreateIndex((change(segment),)))


def cut_files(uri: str) -> None:
    for file in (Path(uri) / "_indices").rglob("*.*"):
        file.write_bytes(file.read_bytes()[:-7])


def assert_left_alone(uri: str, kind: str, *, problem: str) -> None:
    """Through every door the index stays the one it is, and the reason is named."""
    column, parameters = KINDS[kind]
    before = lo.dataset(uri)
    files = sorted(Path(uri).rglob("*"))
    for names in (None, ["x"]):
        done = lo.optimize_indices(uri, names, rebuild=True)
        assert problem in done.skipped[0]
        assert done.segments_added == 0
    assert problem in lance_ops("index", uri, "--rebuild").stdout
    doors: list[Callable[[], object]] = [
        lambda: lo.create_index(uri, column, kind, name="x", replace=True),
        lambda: build_indices(uri, [WantedIndex(column, kind, "x")], {}, replace_all=True),
    ]
    if kind != "JSON" and parameters:
        for door in doors:
            with pytest.raises(UnreadableIndexError, match="default parameters") as caught:
                door()
            assert problem in caught.value.message
        wrong = lance_ops("index", uri, column, "--kind", kind, "--name", "x", "--replace", code=1)
        assert problem in wrong.stdout + wrong.stderr
    assert lo.dataset(uri).indices == before.indices
    assert lo.dataset(uri).version == before.version
    assert sorted(Path(uri).rglob("*")) == files


@pytest.mark.parametrize("kind", WITH_PARAMETERS)
def test_an_index_whose_files_are_damaged(tmp_path: Path, kind: str) -> None:
    uri = made(tmp_path, kind)
    cut_files(uri)
    assert_left_alone(uri, kind, problem="cannot be read")
    column, parameters = KINDS[kind]
    # Whoever says how it is to be made may replace it, and nothing keeps one of another kind away.
    lo.create_index(uri, column, kind, name="x", replace=True, parameters=parameters)
    assert lo.optimize_indices(uri, rebuild=True).skipped == ()


@pytest.mark.parametrize("kind", KINDS)
def test_details_of_a_later_release(tmp_path: Path, kind: str) -> None:
    uri = made(tmp_path, kind)
    recommitted(uri, lambda segment: replace(segment, details=segment.details + LATER_FIELD))
    assert_left_alone(uri, kind, problem="fields that are not known here")
    (before,) = lo.dataset(uri).indices
    assert "fields that are not known here" in lo.optimize_indices(uri).skipped[0]
    assert not [item for item in lo.fsck(uri, deep=True).findings if item.severity.name == "ERROR"]
    # A compaction moves what it holds, or leaves it, and keeps what the details say.
    lo.compact(uri)
    (after,) = lo.dataset(uri).indices
    assert after.details == before.details


@pytest.mark.parametrize("kind", ["BTREE", "ZONEMAP", "INVERTED", "JSON", "IVF_PQ"])
def test_damaged_details(tmp_path: Path, kind: str) -> None:
    uri = made(tmp_path, kind)
    recommitted(uri, lambda segment: replace(segment, details=b"\xff\xff\xff"))
    before = lo.dataset(uri).indices
    assert "left unchanged" in lo.optimize_indices(uri, rebuild=True).skipped[0]
    assert lo.dataset(uri).indices == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("base_tokenizer", "icu"),
        ("base_tokenizer", "jieba"),
        ("base_tokenizer", "lindera"),
        ("language", "Klingon"),
        ("lance_tokenizer", "html"),
        ("json_tokenizer_mode", "every_element"),
        ("synonyms", ["a", "b"]),
    ],
)
def test_words_that_nothing_here_cuts(tmp_path: Path, name: str, value: object) -> None:
    uri = made(tmp_path, "INVERTED")
    (segment,) = lo.dataset(uri).indices
    store = lo.dataset(uri).store
    layout = SegmentLayout.read(store, segment.directory)
    said = {**layout.parameters.to_dict(), name: value}
    store.delete(f"{segment.directory}/{METADATA}")
    replace(layout, parameters=type(layout.parameters).from_dict(said)).write(store, segment.directory)
    assert_left_alone(uri, "INVERTED", problem=str(value))
    statements: list[Callable[[], object]] = [
        lambda: maintain_index(MaintainIndex(("t",), "x", "optimize", {"retrain": True}), uri, SQL),
        lambda: create_named_index(CreateNamed(("t",), "x", "fts", (("text",),)), uri, SQL),
    ]
    for statement in statements:
        with pytest.raises(LanceOpsError, match=re.escape(str(value))):
            statement()
    messages = [item.message for item in lo.fsck(uri, deep=True).findings]
    assert not [message for message in messages if "bytes, the manifest records" not in message]


@pytest.mark.parametrize(
    "said",
    [
        {"document_granularity": table_pb2.InvertedIndexDetails.LIST_ELEMENT},
        {"json_tokenizer_mode": "every_element"},
        {"disable_cross_array_unnest": True},
    ],
)
def test_documents_that_are_no_rows(tmp_path: Path, said: dict[str, Any]) -> None:
    uri = made(tmp_path, "INVERTED")
    more = table_pb2.InvertedIndexDetails(**said).SerializeToString()
    recommitted(uri, lambda segment: replace(segment, details=segment.details + more))
    assert_left_alone(uri, "INVERTED", problem=next(iter(said)))
    cut_files(uri)
    (message,) = [item.message for item in lo.fsck(uri).findings if "--drop" in item.message]
    assert f"{next(iter(said))} " in message
    assert "--replace" not in message


def test_words_of_pylance_in_elements_of_lists(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(), uri, max_rows_per_file=20, data_storage_version="2.2")
    elements = DocumentGranularity.LIST_ELEMENT
    lance.dataset(uri).create_scalar_index("texts", "INVERTED", name="x", document_granularity=elements)

    def found() -> list[int]:
        query = MatchQuery("green 7", "texts", document_granularity=elements)
        table = lance.dataset(uri).to_table(columns=["number"], full_text_query=query)
        return sorted(table["number"].to_pylist())

    expected = found()
    (before,) = lo.dataset(uri).indices
    assert "document_granularity" in lo.optimize_indices(uri, rebuild=True).skipped[0]
    assert lo.dataset(uri).indices == (before,)
    lo.compact(uri)
    assert found() == expected


@pytest.mark.parametrize(("kind", "key"), [("ZONEMAP", "rows_per_zone"), ("BLOOMFILTER", "bloomfilter_item")])
@pytest.mark.parametrize("value", ["many", "0"])
def test_zones_of_an_impossible_size(tmp_path: Path, kind: str, key: str, value: str) -> None:
    uri = made(tmp_path, kind)
    for file in (Path(uri) / "_indices").rglob("*.lance"):
        content = file.read_bytes()
        number = {"ZONEMAP": b"16", "BLOOMFILTER": b"64"}[kind]
        place = content.index(key.encode()) + len(key)
        tail = content[place:].replace(b"\x02" + number, bytes([2]) + value.encode().ljust(2)[:2], 1)
        file.write_bytes(content[:place] + tail)
    assert_left_alone(uri, kind, problem=key)


@pytest.mark.parametrize("parameters", [{"base_tokenizer": "icu"}, {"document_granularity": "list_element"}])
def test_such_an_index_is_refused_by_name_before_anything_is_written(
    tmp_path: Path, parameters: dict[str, Any]
) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(), uri)
    files = sorted(Path(uri).rglob("*"))
    with pytest.raises(UnsupportedError, match=next(iter(parameters.values()))):
        lo.create_index(uri, "texts", "INVERTED", parameters=parameters)
    assert sorted(Path(uri).rglob("*")) == files


def test_a_rotation_by_a_matrix_is_not_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = made(tmp_path, "IVF_RQ")
    plain = VectorSegment.open

    def with_matrix(*place: Any) -> VectorSegment:
        opened = plain(*place)
        return replace(opened, info={**opened.info, "rotate_mat_position": 1})

    monkeypatch.setattr(VectorSegment, "open", with_matrix)
    before = lo.dataset(uri).indices
    assert "a matrix" in lo.optimize_indices(uri, rebuild=True).skipped[0]
    with pytest.raises(UnreadableIndexError, match="a matrix"):
        lo.create_index(uri, "vector", "IVF_RQ", name="x", replace=True)
    assert lo.dataset(uri).indices == before
