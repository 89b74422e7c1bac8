"""Indices of pylance on columns which nothing here indexes: sound, kept, named, and in nobody's way."""

import warnings
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning, UnsupportedError
from lance_ops.index.bitmap.kind import BitmapKind
from lance_ops.index.kind import BuiltSegment, SegmentBuild
from lance_ops.maintenance.fsck.findings import Severity

pytestmark = pytest.mark.peer

_SEVERAL = pa.list_(pa.list_(pa.float32(), 8))


def several_vectors(first: int, stop: int) -> pa.Table:
    values = np.random.default_rng(first).normal(size=(stop - first, 2, 8)).astype(np.float32)
    return pa.table({"id": range(first, stop), "c": pa.array(values.tolist(), _SEVERAL)})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """300 rows in six fragments under such an index and a BTREE, and 60 more under none."""
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(several_vectors(0, 300), uri, max_rows_per_file=50)
    lance.dataset(uri).create_index("c", "IVF_FLAT", name="x", metric="cosine", num_partitions=2)
    lo.create_index(uri, "id", name="b")
    lo.append(uri, several_vectors(300, 360))
    return uri


@pytest.mark.parametrize("options", [{}, {"merge_segments": 1}, {"rebuild": True}])
def test_a_refresh_names_it_and_covers_the_others(uri: str, options: dict[str, int]) -> None:
    done = lo.optimize_indices(uri, **options)
    assert "x covers 83.3% of rows and is kept as it is" in done.skipped[0]
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
    lo.append(uri, several_vectors(360, 380))

    def fail(self: BitmapKind, build: SegmentBuild) -> BuiltSegment:
        raise error

    monkeypatch.setattr(BitmapKind, "merge", fail)
    done = lo.optimize_indices(uri)
    assert done.indices == ("b",)
    assert any(item.startswith("bits is kept as it is") and str(error) in item for item in done.skipped)
    # Alone it says so: nothing was done for anybody.
    with pytest.raises(type(error), match=str(error)):
        lo.optimize_indices(uri, ["bits"])
