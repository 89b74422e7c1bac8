"""DataFrames: index levels, nullable types and categories come back as pylance brings them back."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, LanceOpsError

pytestmark = pytest.mark.peer

NULLABLE = pd.DataFrame(
    {
        "id": pd.array([2**53 + 1, None, 3], "Int64"),
        "flag": pd.array([True, None, False], "boolean"),
        "text": pd.array(["a", None, "c"], "string"),
        "small": pd.array([1, None, 3], "UInt8"),
        "real": pd.array([1.5, None, 2.5], "Float32"),
    }
)
LEVELS = ["low", "middle", "high"]


def by_peer(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    uri = str(folder / "peer")
    lance.write_dataset(frame, uri)
    return lance.dataset(uri).to_table().to_pandas()


@pytest.mark.parametrize(
    "index",
    [
        pd.DatetimeIndex(["2024-05-01", "2024-05-02", "2024-05-03"], name="day"),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["kind", "number"]),
    ],
    ids=["named", "several levels"],
)
def test_named_levels_of_an_index_are_columns(tmp_path: Path, index: pd.Index) -> None:
    frame = pd.DataFrame({"v": [1.5, 2.5, 3.5]}, index=index)
    uri = str(tmp_path / "t")
    lo.append(uri, frame)
    expected = by_peer(frame, tmp_path)
    assert lo.dataset(uri).schema.names == lance.dataset(str(tmp_path / "peer")).schema.names
    for found in (lo.dataset(uri).to_pandas(), lance.dataset(uri).to_table().to_pandas()):
        pd.testing.assert_frame_equal(found, expected)
    lo.append(uri, frame)
    assert lo.dataset(uri).to_pandas().index.tolist() == [*index, *index]


def test_a_named_range_is_a_column_and_levels_without_names_are_none(tmp_path: Path) -> None:
    frame = pd.DataFrame({"v": [1.5, 2.5]}, index=pd.RangeIndex(5, 7, name="row"))
    lo.append(str(tmp_path / "a"), frame)
    assert lo.dataset(str(tmp_path / "a")).to_table().to_pydict() == {"v": [1.5, 2.5], "row": [5, 6]}
    half = pd.DataFrame({"v": [1.5]}, index=pd.MultiIndex.from_tuples([("a", 1)], names=["kind", None]))
    for number, unnamed in enumerate((frame.rename_axis(None), frame[frame["v"] > 2].rename_axis(None))):
        lo.append(str(tmp_path / f"b{number}"), unnamed)
        assert lo.dataset(str(tmp_path / f"b{number}")).schema.names == ["v"]
    lo.append(str(tmp_path / "c"), half)
    assert lo.dataset(str(tmp_path / "c")).schema.names == ["v", "kind"]


def test_a_level_that_repeats_a_column_adds_none(tmp_path: Path) -> None:
    uri, frame = str(tmp_path / "t"), pd.DataFrame({"k": ["a", None], "v": [1, 2]})
    lo.append(uri, frame)
    lo.append(uri, frame.set_index("k", drop=False))
    lo.append(uri, frame.set_index(["k", "v"], drop=False))
    lo.append(uri, frame.set_index(["k", pd.Index([1, 2], name="v")]).assign(v=[1, 2]))
    expected = {"k": ["a", None] * 4, "v": [1, 2] * 4}
    assert lo.dataset(uri).to_table().to_pydict() == expected
    assert lance.dataset(uri).to_table().to_pydict() == expected
    other = frame.set_index(pd.Index([3, 4], name="v"))
    lo.append(str(tmp_path / "other"), other)
    assert lo.dataset(str(tmp_path / "other")).to_table().to_pydict()["__index_level_0__"] == [3, 4]


def test_nullable_types_come_back(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lo.append(uri, NULLABLE)
    lo.append(uri, NULLABLE)
    lo.compact(uri)
    expected = pd.concat([NULLABLE, NULLABLE], ignore_index=True)
    pd.testing.assert_frame_equal(by_peer(NULLABLE, tmp_path), NULLABLE)
    for found in (lo.dataset(uri).to_pandas(), lance.dataset(uri).to_table().to_pandas()):
        pd.testing.assert_frame_equal(found, expected)
    pd.testing.assert_frame_equal(lo.dataset(uri).to_pandas(["flag", "id"]), expected[["flag", "id"]])


def test_replaced_columns_do_not_keep_the_pandas_type_of_others(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lo.append(uri, NULLABLE)
    lo.alter_columns(uri, {"path": "id", "data_type": pa.string()})
    lo.drop_columns(uri, ["flag"])
    lo.add_columns(uri, {"flag": "text"})
    lo.alter_columns(uri, {"path": "small", "name": "narrow"})
    lo.drop_columns(uri, ["real"])
    lo.alter_columns(uri, {"path": "text", "name": "real"})
    found = lo.dataset(uri).to_pandas()
    # Pandas 3 has NaN for a null among strings.
    values = found.astype(object).where(found.notna(), None)
    assert values["id"].tolist() == ["9007199254740993", None, "3"]
    assert values["flag"].tolist() == values["real"].tolist() == ["a", None, "c"]
    assert lance.dataset(uri).to_table().to_pandas().equals(found)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("rows", [[], ["high"], ["high", "low", None, "high"]], ids=len)
def test_ordered_categories_keep_their_order(tmp_path: Path, rows: list[str | None], version: str) -> None:
    """The format keeps the order of the values; that they are ordered is not kept by pylance, either."""
    frame = pd.DataFrame(
        {"id": range(len(rows) + 1), "c": pd.Categorical(["low", *rows], LEVELS, ordered=True)}
    )
    uri, theirs = str(tmp_path / "t"), str(tmp_path / "peer")
    lo.write_dataset(frame, uri, data_storage_version=version)
    lance.write_dataset(frame, theirs, data_storage_version=version)

    def entries(dataset: lo.Dataset) -> list[list[str]]:
        return [chunk.dictionary.to_pylist() for chunk in dataset.to_table()["c"].chunks]

    assert lo.dataset(uri).to_table() == lo.dataset(theirs).to_table()
    assert entries(lo.dataset(uri)) == entries(lo.dataset(theirs)) == [LEVELS]
    lo.append(uri, frame)
    lo.compact(uri)
    assert entries(lo.dataset(uri)) == [LEVELS]
    lo.update(uri, {"id": "id + 1"})
    lo.merge_insert(uri, frame, "id", when_matched="update_all", when_not_matched="insert_all")
    assert all(found == LEVELS for found in entries(lo.dataset(uri)))
    found = lance.dataset(uri).to_table()
    if version != "2.0":
        assert found.to_pandas()["c"].cat.categories.tolist() == LEVELS
    assert sorted(found["id"].to_pylist()) == sorted(lo.dataset(uri).to_table()["id"].to_pylist())


WITHOUT_TYPE = {
    "sparse": pd.arrays.SparseArray([0, 0, 1]),
    "sparse with nulls": pd.arrays.SparseArray([None, 1.0, 2.0]),
    "numbers and words": [1, "x", None],
    "numbers and lists": [1, [2], None],
    "objects": [object(), None, 1],
    "complex": [1j, 2, 3],
    "long doubles": np.array([1, 2, 3], dtype=np.longdouble),
    "mixed categories": pd.Categorical([1, "x", 1]),
    "large integers": [2**70, 1, 2],
    "half of a character": ["\ud800", "a", "b"],
    "members of two types": [{"x": 1}, {"x": "s"}, None],
    "decimals and floats": [Decimal("1.5"), 2.5, None],
    "matrices": [np.zeros((2, 2))] * 3,
    "raw memory": [np.void(b"abc")] * 3,
}


@pytest.mark.parametrize("values", WITHOUT_TYPE.values(), ids=WITHOUT_TYPE)
def test_a_column_that_arrow_cannot_hold_is_named(tmp_path: Path, values: Any) -> None:
    uri = str(tmp_path / "t")
    frame = pd.DataFrame({"id": [1, 2, 3]})
    frame["odd one"] = pd.Series(values, dtype=None if hasattr(values, "dtype") else object)
    calls: list[Callable[[], object]] = [
        lambda: lo.append(uri, frame),
        lambda: lo.merge_insert(uri, frame, "id", when_matched="update_all"),
        lambda: lo.add_columns(uri, lo.batch_udf()(lambda batch: frame.iloc[: batch.num_rows][["odd one"]])),
    ]
    for call in calls:
        # A function may fail in a task.
        with pytest.raises(LanceOpsError, match=r"column 'odd one' of the DataFrame(.|\n)*hint: "):
            call()
        if call is calls[0]:
            lo.append(uri, frame[["id"]])
    assert lo.dataset(uri).to_table().to_pydict() == {"id": [1, 2, 3]}


def test_objects_of_pandas_that_are_no_sound_frame_are_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for data in (pd.Series([1], name="x"), pd.Index([1], name="x"), pd.array([1])):
        with pytest.raises(InvalidArgumentError, match=f"pandas {type(data).__name__} objects"):
            lo.append(uri, data)
    with pytest.raises(InvalidArgumentError, match=r"duplicate column names in the DataFrame: a\b"):
        lo.append(uri, pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]))
    level = pd.Index([1j, 2j], name="level")
    with pytest.raises(InvalidArgumentError, match="column 'level' of the DataFrame"):
        lo.append(uri, pd.DataFrame({"a": [1, 2]}, index=level))


def test_names_and_types_of_pandas_only_are_kept_as_the_official_library_keeps_them(tmp_path: Path) -> None:
    """Names of several levels and numbers as names; periods and intervals."""
    frame = pd.DataFrame(
        {
            ("a", "x"): [1, 2],
            ("a", "y"): pd.period_range("2024-01", periods=2, freq="M"),
            ("b", "z"): pd.interval_range(0, 2),
        }
    )
    for number, given in enumerate((frame, frame.droplevel(0, axis=1), frame.set_axis(range(3), axis=1))):
        uri = str(tmp_path / str(number))
        lo.append(uri, given)
        folder = tmp_path / f"of {number}"
        folder.mkdir()
        pd.testing.assert_frame_equal(lo.dataset(uri).to_pandas(), by_peer(given, folder))
        lo.append(uri, given)
        lo.compact(uri)
        assert lance.dataset(uri).to_table().to_pandas().equals(lo.dataset(uri).to_pandas())
