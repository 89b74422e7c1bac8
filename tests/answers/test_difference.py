"""diff: columns and rows that differ between two versions."""

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, VersionNotFoundError


@pytest.fixture
def uri(tmp_path):
    path = str(tmp_path / "t.lance")
    lo.append(path, pa.table({"id": range(10), "k": list("ab") * 5, "s": [{"a": 1, "b": 2}] * 10}))
    return path


def changes(found):
    return [(item.change, item.column, item.before, item.after) for item in found.columns]


def test_rows_are_counted_by_kind(uri):
    lo.append(uri, pa.table({"id": [11], "k": ["z"], "s": [{"a": 1, "b": 2}]}))
    lo.delete(uri, "id < 2")
    found = lo.diff(uri, 1)
    assert (found.since, found.until) == (1, 3)
    assert (found.inserted, found.updated, found.deleted) == (1, 0, 2)
    assert (found.rows_before, found.rows_after) == (10, 9)
    assert found.columns == ()
    assert "1 inserted, 0 updated, 2 deleted (10 -> 9 rows)" in str(found)


def test_columns_are_followed_through_renames_types_and_members(uri):
    lo.add_columns(uri, {"n": "id * 2"})
    lo.alter_columns(uri, {"path": "k", "name": "kind"})
    lo.alter_columns(uri, {"path": "id", "data_type": pa.int32()})
    lo.drop_columns(uri, ["s.b"])
    assert changes(lo.diff(uri, 1)) == [
        ("type", "id", "int64", "int32"),
        ("renamed", "kind", "k", "kind"),
        ("added", "n", None, "int64"),
        ("dropped", "s.b", "int64", None),
    ]


def test_updates_are_told_apart_with_stable_row_ids(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"id": range(5)}), uri, enable_stable_row_ids=True)
    lo.update(uri, {"id": "id + 10"}, "id < 2")
    found = lo.diff(uri, 1, 2)
    assert (found.inserted, found.updated, found.deleted) == (0, 2, 0)


def test_rows_that_cannot_be_followed_are_unknown_with_the_reason(uri):
    lo.delete(uri, "id < 2")
    lo.compact(uri)
    found = lo.diff(uri, 1)
    assert (found.inserted, found.updated, found.deleted) == (None, None, None)
    assert "moved rows that have no stable row ids" in found.unknown
    assert (found.rows_before, found.rows_after) == (10, 8)
    assert not found.is_empty


def test_a_version_does_not_differ_from_itself(uri):
    lo.create_tag(uri, "first", 1)
    found = lo.diff(uri, "first", 1)
    assert found.is_empty
    assert "schema: no difference\nrows: no difference" in str(found)


def test_versions_in_the_wrong_order_and_missing_ones_are_refused(uri):
    lo.delete(uri, "id = 1")
    with pytest.raises(InvalidArgumentError, match="is not before"):
        lo.diff(uri, 2, 1)
    with pytest.raises(VersionNotFoundError):
        lo.diff(uri, 7)
