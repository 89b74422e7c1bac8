"""Ordered categories of pandas come back ordered, as long as their order is known."""

from pathlib import Path

import pandas as pd
import pytest

import lance_ops as lo

LEVELS = ["low", "middle", "high", "unused"]


def frame(values: list[str | None], levels: list[str] = LEVELS, *, ordered: bool = True) -> pd.DataFrame:
    return pd.DataFrame({"id": range(len(values)), "c": pd.Categorical(values, levels, ordered=ordered)})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(frame(["middle", None, "low"]), uri)
    return uri


KEPT = {
    "written": lambda uri: None,
    "append": lambda uri: lo.append(uri, frame(["high", "low"])),
    "append of fewer categories": lambda uri: lo.append(uri, frame(["high"], ["high", "low"])),
    "append of strings": lambda uri: lo.append(uri, frame(["high"]).astype({"c": "string"})),
    "update": lambda uri: lo.update(uri, {"c": "'high'"}, "id = 0"),
    "upsert": lambda uri: lo.merge_insert(uri, frame(["low", "low", "high", "high"]), "id"),
    "delete": lambda uri: lo.delete(uri, "id = 0"),
    "compaction": lambda uri: (
        lo.append(uri, frame(["high", "low"])),
        lo.delete(uri, "id = 0"),
        lo.compact(uri),
    ),
    "another column": lambda uri: lo.add_columns(uri, {"x": "id + 1"}),
    "restore": lambda uri: (lo.update(uri, {"c": "'new'"}, "id = 0"), lo.restore(uri, 1)),
}
LOST = {
    "a new category": lambda uri: lo.update(uri, {"c": "'new'"}, "id = 0"),
    "another order": lambda uri: lo.append(uri, frame(["low"], LEVELS[::-1])),
    "no order": lambda uri: lo.write_dataset(frame(["low"], ordered=False), uri, mode="overwrite"),
}


@pytest.mark.parametrize("step", KEPT)
def test_the_order_is_that_of_the_frame_that_was_written(uri, step):
    KEPT[step](uri)
    found = lo.dataset(uri).to_pandas()["c"]
    assert found.dtype == pd.CategoricalDtype(LEVELS, ordered=True)
    assert (
        found.astype("object").where(found.notna(), None).tolist()
        == lo.dataset(uri).to_table()["c"].to_pylist()
    )
    part = lo.dataset(uri).to_pandas(columns=["c"], filter="c = 'low'", limit=1)
    assert part["c"].cat.ordered
    assert (part["c"] < "high").all()


@pytest.mark.parametrize("step", LOST)
def test_categories_of_no_known_order_are_unordered(uri, step):
    LOST[step](uri)
    found = lo.dataset(uri).to_pandas()["c"]
    assert not found.cat.ordered
    assert (
        found.astype("object").where(found.notna(), None).tolist()
        == lo.dataset(uri).to_table()["c"].to_pylist()
    )


def test_an_index_of_ordered_categories_comes_back(tmp_path):
    uri = str(tmp_path / "t.lance")
    written = pd.DataFrame({"x": [1, 2]}, pd.CategoricalIndex(["low", "high"], LEVELS, True, name="level"))
    lo.write_dataset(written, uri)
    pd.testing.assert_frame_equal(lo.dataset(uri).to_pandas(), written)
