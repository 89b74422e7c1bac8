"""Text indices that are not supported are refused before anything is written; those of pylance are kept."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.index.inverted.layout import SegmentLayout

pytestmark = pytest.mark.peer

NOT_BUILT: list[dict[str, Any]] = [
    {"base_tokenizer": "icu"},
    {"base_tokenizer": "icu/split"},
    {"format_version": 4},
    {"block_size": 64},
    {"document_granularity": "element"},
]
OF_PYLANCE: list[dict[str, Any]] = [
    {"base_tokenizer": "icu"},
    {"base_tokenizer": "icu/split"},
]


@pytest.mark.parametrize("parameters", NOT_BUILT, ids=str)
def test_what_cannot_be_built_is_refused_by_name_before_anything_is_written(
    tmp_path: Path, parameters: dict[str, Any]
) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"t": ["red apple"] * 9}), uri)
    before = sorted(tmp_path.rglob("*"))
    ((name, value),) = parameters.items()
    with pytest.raises((UnsupportedError, InvalidArgumentError)) as caught:
        lo.create_index(uri, "t", "INVERTED", parameters=parameters)
    assert str(value) in str(caught.value) or name in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("parameters", OF_PYLANCE, ids=str)
def test_those_of_pylance_are_kept_and_searches_say_what_is_not_supported(
    tmp_path: Path, parameters: dict[str, Any]
) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"t": ["red apple 1", "pear 2"] * 10}), uri, max_rows_per_file=10)
    lance.dataset(uri).create_scalar_index("t", "INVERTED", name="x", **parameters)
    lo.append(uri, lo.dataset(uri).to_table().slice(0, 5))
    with pytest.raises(UnsupportedError):
        lo.dataset(uri).to_table(full_text_query={"match": {"column": "t", "terms": "red apple"}})
    (skipped,) = lo.optimize_indices(uri).skipped
    assert skipped.startswith("x ")
    assert lo.fsck(uri, deep=True).ok
    assert [item.name for item in lo.dataset(uri).indices] == ["x"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"match": {"terms": "red", "column": "t", "document_granularity": "list_element"}}, "list_element"),
        ({"phrase": {"terms": "red", "column": "t", "document_granularity": "list_element"}}, "list_element"),
        ({"combined_fields": {"query": "red", "columns": ["t"]}}, "combined_fields"),
        ({"boolean": {"must": [{"combined_fields": {"query": "red", "columns": ["t"]}}]}}, "combined_fields"),
    ],
)
def test_queries_that_are_not_supported_are_refused_by_name(
    tmp_path: Path, query: dict[str, Any], named: str
) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"t": ["red apple"] * 9}), uri)
    with pytest.raises(UnsupportedError, match=named):
        lo.dataset(uri).to_table(full_text_query=query)


def test_rows_are_the_documents_that_a_query_may_ask_for(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"t": ["red apple", "pear"]}), uri)
    lo.create_index(uri, "t", "INVERTED", parameters={"with_position": True})
    for kind in ("match", "phrase"):
        for granularity in ("row", None):
            query = {kind: {"terms": "red apple", "column": "t", "document_granularity": granularity}}
            assert lo.dataset(uri).to_table(["t"], full_text_query=query)["t"].to_pylist() == ["red apple"]


@pytest.mark.parametrize("given", ["v1", "V2", "1", " 2", 1, 2, "v0", "v3", "two", "01", "v 1", 9])
def test_a_format_has_the_names_that_pylance_takes(tmp_path: Path, given: object) -> None:
    versions = []
    for name in ("ours", "theirs"):
        uri = str(tmp_path / name)
        dataset = lance.write_dataset(pa.table({"t": ["red apple"]}), uri)
        try:
            if name == "ours":
                lo.create_index(uri, "t", "INVERTED", parameters={"format_version": given})
            else:
                dataset.create_scalar_index("t", "INVERTED", format_version=given)
        except (InvalidArgumentError, OSError, ValueError, RuntimeError):
            versions.append(None)
        else:
            made = lo.dataset(uri)
            layout = SegmentLayout.read(made.store, made.indices[0].directory)
            versions.append(layout.format_version)
    # pylance builds format 3 as well.
    assert versions[0] == versions[1] or (given, versions) == ("v3", [None, 3])
