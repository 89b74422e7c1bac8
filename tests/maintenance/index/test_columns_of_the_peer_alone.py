"""Indices of pylance that nothing here builds: sound, kept, named, and in nobody's way."""

import warnings
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning, UnsupportedError
from lance_ops.index.bitmap.kind import BitmapKind
from lance_ops.index.kind import BuiltSegment, SegmentBuild
from lance_ops.maintenance.fsck.findings import Severity

pytestmark = pytest.mark.peer


def rows(first: int, stop: int) -> pa.Table:
    return pa.table({"id": range(first, stop), "c": [f"word {number}" for number in range(first, stop)]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """300 rows in six fragments under such an index and a BTREE, and 60 more under none."""
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=50)
    lance.dataset(uri).create_scalar_index("c", "INVERTED", name="x", base_tokenizer="icu")
    lo.create_index(uri, "id", name="b")
    lo.append(uri, rows(300, 360))
    return uri


@pytest.mark.parametrize("options", [{}, {"merge_segments": 1}, {"rebuild": True}])
def test_a_refresh_names_it_and_covers_the_others(uri: str, options: dict[str, Any]) -> None:
    (before,) = (item for item in lo.dataset(uri).indices if item.name == "x")
    done = lo.optimize_indices(uri, **options)
    assert before in lo.dataset(uri).indices
    assert "x covers 83.3% of rows and is left unchanged" in done.skipped[0]
    covered = {item.name: item.num_rows_unindexed for item in lo.describe_indices(lo.dataset(uri))}
    assert covered == {"b": 0, "x": 60}


def test_it_is_no_damage(uri: str) -> None:
    for deep in (False, True):
        found = lo.fsck(uri, deep=deep).findings
        assert {item.severity for item in found if "'x'" in item.message} <= {Severity.WARNING}, found


def test_a_compaction_does_not_cost_it_coverage(uri: str) -> None:
    def covered() -> int:
        (item,) = (item for item in lo.describe_indices(lo.dataset(uri)) if item.name == "x")
        return item.num_rows_indexed

    before = covered()
    lo.delete(uri, "id % 5 = 1")
    lo.compact(uri, materialize_deletions_threshold=0.0)
    # A fifth is gone, of the rows it covered as of all.
    assert covered() == before - before // 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadableIndexWarning)
        assert lo.dataset(uri).count_rows("id >= 0") == 288
    assert lance.dataset(uri).count_rows("id >= 0") == 288


@pytest.mark.parametrize(
    "error", [pa.ArrowNotImplementedError("no cast"), UnsupportedError("no such layout")]
)
def test_an_index_that_cannot_be_refreshed_does_not_stop_the_others(
    uri: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    lo.create_index(uri, "id", "BITMAP", name="bits")
    lo.append(uri, rows(360, 380))

    def fail(self: BitmapKind, build: SegmentBuild) -> BuiltSegment:
        raise error

    monkeypatch.setattr(BitmapKind, "merge", fail)
    done = lo.optimize_indices(uri)
    assert done.indices == ("b",)
    assert any(item.startswith("bits is left unchanged") and str(error) in item for item in done.skipped)
    # Alone it says so: nothing was done for anybody.
    with pytest.raises(type(error), match=str(error)):
        lo.optimize_indices(uri, ["bits"])
