"""Paths and default names of indices: as with pylance, and names of earlier releases are found again."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.index.several import WantedIndex, build_indices

pytestmark = pytest.mark.peer

TABLE = pa.table(
    {
        "MetaData": pa.array([{"userId": 1, "user-id": 2, "UserID": 3}] * 5),
        "odd name": range(5),
        "meta-data": pa.array([{"a.b": 1, "c": 2}] * 5),
        "tü": pa.array([{"a.b": 1}] * 5),
        "Plain": range(5),
        "x": range(5),
        "X": range(5),
    }
)
PATHS = [
    "MetaData.userId",
    "metadata.userid",
    "metadata.`USER-ID`",
    "MetaData.UserID",
    "`meta-data`.`a.b`",
    "tü.`a.b`",
    "`meta-data`.c",
    "meta-data.`c`",
    "odd name",
    "`odd name`",
    "ODD NAME",
    "plain",
    "`PLAIN`",
    "x",
    "X",
]


def described(uri: str) -> list[tuple[str, list[str]]]:
    return [(item.name, item.field_names) for item in lance.dataset(uri).describe_indices()]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_and_its_default_name_are_those_of_pylance(tmp_path: Path, path: str) -> None:
    ours, theirs = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance")
    for uri in (ours, theirs):
        lo.write_dataset(TABLE, uri)
    lo.create_index(ours, path, "BTREE")
    lance.dataset(theirs).create_scalar_index(path, "BTREE")
    assert described(ours) == described(theirs)
    lance.dataset(ours).create_scalar_index(path, "BTREE", replace=True)
    assert described(ours) == described(theirs)
    lo.create_index(ours, path, "BTREE", replace=True)
    assert described(ours) == described(theirs)


@pytest.mark.parametrize("path", ["MetaData.other", "meta data", "plain.x"])
def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path, path: str) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(TABLE, uri)
    with pytest.raises(InvalidArgumentError, match="no column"):
        lo.create_index(uri, path)


@pytest.mark.parametrize(
    ("path", "old"), [("odd name", "`odd name`_idx"), ("meta-data.c", "`meta-data`.c_idx")]
)
def test_an_index_under_the_name_of_an_earlier_release_is_found(tmp_path: Path, path: str, old: str) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(TABLE, uri)
    lo.create_index(uri, path, name=old)
    # A name like that on another column is not meant.
    lo.create_index(uri, "Plain", name="`x`_idx")
    with pytest.raises(InvalidArgumentError, match="already exists"):
        lo.create_index(uri, path)
    lo.create_index(uri, path, replace=True)
    build_indices(uri, [WantedIndex(path, "BTREE"), WantedIndex("x", "BTREE")], {})
    assert {item.name for item in lo.dataset(uri).indices} == {old, "`x`_idx", "x_idx"}


STEPS = {
    "another kind": [("x", "BITMAP", {}), ("x", "BTREE", {})],
    "each kind again": [("x", "BITMAP", {}), ("x", "BTREE", {}), ("x", "ZONEMAP", {}), ("x", "BTREE", {})],
    "without replacing": [("x", "BITMAP", {"replace": False}), ("x", "BTREE", {"replace": False})],
    "the same without replacing": [("x", "BTREE", {"replace": False}), ("x", "BTREE", {"replace": False})],
    "by name": [("x", "BITMAP", {}), ("x", "BTREE", {"name": "x_idx"})],
    "name of another column": [("X", "BTREE", {"name": "x_idx"}), ("x", "BTREE", {})],
    "number that is taken": [("x", "BTREE", {"name": "x_idx_2"}), ("x", "BITMAP", {}), ("x", "BTREE", {})],
    "texts": [("odd name", "BTREE", {}), ("odd name", "BITMAP", {}), ("odd name", "BLOOMFILTER", {})],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_an_index_of_another_kind_stays_beside_a_new_one_without_a_name(tmp_path: Path, steps: list) -> None:
    ours, theirs = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance")
    for uri in (ours, theirs):
        lo.write_dataset(TABLE, uri)
    for column, kind, options in steps:
        refused = [False, False]
        try:
            lo.create_index(ours, column, kind, **{"replace": True, **options})
        except InvalidArgumentError:
            refused[0] = True
        try:
            lance.dataset(theirs).create_scalar_index(column, kind, **options)
        except RuntimeError:
            refused[1] = True
        assert refused[0] == refused[1]
    kinds = [
        [(item.name, item.index_type) for item in lance.dataset(uri).describe_indices()]
        for uri in (ours, theirs)
    ]
    assert kinds[0] == kinds[1]
