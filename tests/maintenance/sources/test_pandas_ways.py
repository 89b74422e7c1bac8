"""Frames with ordered categories, nullable types and a named index, by every way in, and read by both."""

from collections.abc import Callable
from pathlib import Path

import lance
import pandas as pd
import pyarrow as pa
import pytest

import lance_ops as lo

pytestmark = pytest.mark.peer

LEVELS = ["low", "middle", "high", "unused"]


def frame(start: int, levels: list[str | None]) -> pd.DataFrame:
    rows = len(levels)
    return pd.DataFrame(
        {
            "level": pd.Categorical(levels, LEVELS, ordered=True),
            "whole": pd.array([2**53 + 1, None, 3][:rows], "Int64"),
            "flag": pd.array([True, None, False][:rows], "boolean"),
            "text": pd.array(["x", None, ""][:rows], "string"),
            "small": pd.array([255, None, 0][:rows], "UInt8"),
            "real": pd.array([1.5, None, 0.1][:rows], "Float32"),
        },
        index=pd.Index(list(range(start, start + rows)), name="id"),
    )


FIRST, SECOND = frame(0, ["low", None, "low"]), frame(10, ["high", "low"])
BOTH = pd.concat([FIRST, SECOND])


def by_fragments(uri: str) -> pd.DataFrame:
    lo.commit(uri, lo.operations.Append(lo.write_fragments(SECOND, uri)), 1)
    return BOTH


def by_merge(uri: str) -> pd.DataFrame:
    rows = pd.concat([SECOND, FIRST.iloc[:1]])
    lo.merge_insert(uri, rows, "id", when_matched="update_all", when_not_matched="insert_all")
    return BOTH


def by_replacing_columns(uri: str) -> pd.DataFrame:
    other = frame(0, ["middle", "middle", None]).reset_index(drop=True)
    lo.replace_columns(uri, other[["level", "small"]])
    return FIRST.assign(level=other["level"].array, small=other["small"].array)


def by_update(uri: str) -> pd.DataFrame:
    lo.append(uri, SECOND)
    lo.update(uri, {"small": "7"}, "id = 1")
    return BOTH.assign(small=pd.array([255, 7, 0, 255, None], "UInt8"))


def by_clone(uri: str) -> pd.DataFrame:
    lo.append(uri, SECOND)
    lo.deep_clone(uri, f"{uri}.copy")
    lo.write_dataset(lo.dataset(f"{uri}.copy").to_table(), uri, mode="overwrite")
    return BOTH


def by_compaction(uri: str) -> pd.DataFrame:
    lo.append(uri, SECOND)
    lo.delete(uri, "id = 0")
    lo.compact(uri)
    return BOTH[1:]


def by_peer(uri: str) -> pd.DataFrame:
    lance.write_dataset(SECOND, uri, mode="append")
    lo.compact(uri)
    return BOTH


WAYS: dict[str, Callable[[str], pd.DataFrame | None]] = {
    "append": lambda uri: lo.append(uri, SECOND) and BOTH,
    "stream": lambda uri: lo.append(uri, pa.Table.from_pandas(SECOND).to_reader()) and BOTH,
    "overwrite": lambda uri: lo.write_dataset(SECOND, uri, mode="overwrite") and SECOND,
    "replace where": lambda uri: lo.replace_where(uri, SECOND, "id >= 10") and BOTH,
    "replace all": lambda uri: lo.replace_where(uri, SECOND, "true") and SECOND,
    "fragments": by_fragments,
    "merge": by_merge,
    "replace columns": by_replacing_columns,
    "update": by_update,
    "compact": lambda uri: (
        lo.append(uri, SECOND) and lo.delete(uri, "id = 0") and lo.compact(uri) and BOTH[1:]
    ),
    "clone": by_clone,
    "pylance appends": lambda uri: (
        lance.write_dataset(SECOND, uri, mode="append") and lo.compact(uri) and BOTH
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_frames_come_back_with_their_types_order_and_index(way: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lo.write_dataset(FIRST, uri)
    expected = WAYS[way](uri)
    assert expected is not None
    # The format does not keep that categories are ordered, but their order.
    expected = expected.assign(level=expected["level"].cat.as_unordered())
    for found in (lo.dataset(uri).to_pandas(), lance.dataset(uri).to_table().to_pandas()):
        found = found.sort_index()
        assert found["level"].cat.categories.tolist() == LEVELS
        found = found.assign(level=found["level"].cat.as_unordered())
        pd.testing.assert_frame_equal(found, expected, check_index_type=False)
    assert lo.fsck(uri, deep=True).ok
