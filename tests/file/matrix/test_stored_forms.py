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
def test_json_is_text_on_both_sides(version: str, tmp_path: Path) -> None:
    texts = [None if n % 7 == 0 else f'{{"list":[{n},null,"x"],"n":{n}}}' for n in range(1025)]
    table = pa.table({"c": pa.array(texts, pa.json_())})
    lo.write_dataset(table, str(tmp_path / "ours"), data_storage_version=version)
    lance.write_dataset(table, str(tmp_path / "peer"), data_storage_version=version)
    for uri in ("ours", "peer"):
        theirs = lance.dataset(str(tmp_path / uri)).to_table()
        assert_same(lo.dataset(str(tmp_path / uri)).to_table(), theirs)
        assert theirs["c"].to_pylist() == texts
