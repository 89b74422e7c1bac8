"""Zone maps of pylance over dictionaries: read, used and kept up, by bounds that pylance leaves out."""

import re
import warnings
from pathlib import Path
from typing import Literal

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError

pytestmark = pytest.mark.peer

ZONE = 20
TEXTS = (
    "d = 'k03'",
    "d IS NULL",
    "d IS NOT NULL",
    "d > 'k15'",
    "d IN ('k01', 'k19')",
    "d BETWEEN 'k02' AND 'k04'",
    "d <> 'k03'",
    "d = 'nope'",
    "starts_with(d, 'k0')",
)
NUMBERS = ("d = 3", "d IS NULL", "d > 15", "d IN (1, 19)", "d BETWEEN 2 AND 4", "d = 99")


def rows(first: int, stop: int, kind: pa.DictionaryType) -> pa.Table:
    numbers = [None if n % 7 == 0 else n // 10 for n in range(first, stop)]
    texts = pa.types.is_string(kind.value_type)
    values = [None if n is None else f"k{n:02d}" for n in numbers] if texts else numbers
    coded = pa.array(values, kind.value_type).dictionary_encode()
    return pa.table({"id": range(first, stop), "d": coded.cast(kind)})


def checked(uri: str, conditions: tuple[str, ...]) -> None:
    """A scan, the index and the peer with it select the same; LIKE is the peer's own fault."""
    for sql in conditions:
        expected = lo.dataset(uri).scanner(filter=sql, pruners=[]).to_table()["id"].to_pylist()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert lo.dataset(uri).to_table(filter=sql)["id"].to_pylist() == expected, sql
        assert lance.dataset(uri).to_table(filter=sql)["id"].to_pylist() == expected, sql
    if "starts_with" in conditions[-1]:
        like = lo.dataset(uri).to_table(filter="d LIKE 'k0%'").num_rows
        assert like == lo.dataset(uri).scanner(filter="d LIKE 'k0%'", pruners=[]).to_table().num_rows > 0


@pytest.mark.parametrize("method", ["copy", "rewrite"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row ids"])
@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.uint16(), pa.int64()),
    ],
    ids=str,
)
def test_a_history_keeps_answers_and_coverage(
    tmp_path: Path, kind: pa.DictionaryType, stable: bool, method: Literal["copy", "rewrite"]
) -> None:
    uri = str(tmp_path / "t.lance")
    conditions = TEXTS if pa.types.is_string(kind.value_type) else NUMBERS
    lance.write_dataset(rows(0, 200, kind), uri, max_rows_per_file=50, enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index(
        "d", IndexConfig(index_type="zonemap", parameters={"rows_per_zone": ZONE})
    )
    checked(uri, conditions)
    lo.append(uri, rows(200, 260, kind))
    lo.optimize_indices(uri)
    assert coverage(uri) == (260, 0)
    checked(uri, conditions)
    lo.delete(uri, "id % 9 = 1")
    done = lo.compact(uri, materialize_deletions_threshold=0.0, method=method)
    assert done.fragments_removed > done.fragments_added > 0
    assert coverage(uri)[1] == 0
    checked(uri, conditions)
    lance.write_dataset(rows(260, 300, kind), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    lance.dataset(uri).optimize.compact_files()
    lo.optimize_indices(uri, rebuild=True)
    checked(uri, conditions)
    assert lo.fsck(uri, deep=True).findings == ()


def coverage(uri: str) -> tuple[int, int]:
    (found,) = lo.describe_indices(lo.dataset(uri))
    return found.num_rows_indexed, found.num_rows_unindexed


def test_bounds_narrow_questions_of_both(tmp_path: Path) -> None:
    uri, kind = str(tmp_path / "t.lance"), pa.dictionary(pa.int32(), pa.string())
    lance.write_dataset(rows(0, 200, kind), uri)
    parameters = IndexConfig(index_type="zonemap", parameters={"rows_per_zone": ZONE})
    lance.dataset(uri).create_scalar_index("d", parameters)
    lo.optimize_indices(uri, rebuild=True)
    assert f"narrowed to {ZONE} rows" in lo.dataset(uri).explain(filter="d = 'k03'")
    told = lance.dataset(uri).scanner(filter="d = 'k03'").analyze_plan()
    assert re.findall(r"rows_scanned=(\d+)", told) == [str(ZONE)]


def test_a_dictionary_too_small_for_the_bounds_leaves_them_out(tmp_path: Path) -> None:
    uri, kind = str(tmp_path / "t.lance"), pa.dictionary(pa.int8(), pa.int64())
    parts = [rows(first, first + 1000, kind) for first in range(0, 4000, 1000)]
    lance.write_dataset(parts[0], uri)
    parameters = IndexConfig(index_type="zonemap", parameters={"rows_per_zone": 10})
    lance.dataset(uri).create_scalar_index("d", parameters)
    for part in parts[1:]:
        lo.append(uri, part)
    lo.optimize_indices(uri, rebuild=True)
    assert coverage(uri) == (4000, 0)
    checked(uri, ("d = 3", "d = 399", "d IS NULL"))


def test_no_new_one_is_made_as_pylance_finds_nothing_by_like_then(tmp_path: Path) -> None:
    uri, kind = str(tmp_path / "t.lance"), pa.dictionary(pa.int32(), pa.string())
    lo.write_dataset(rows(0, 200, kind), uri)
    lance.dataset(uri).create_scalar_index("d", "ZONEMAP", name="other")
    assert lance.dataset(uri).to_table(filter="d LIKE 'k0%'").num_rows == 0
    assert lo.dataset(uri).to_table(filter="d LIKE 'k0%'").num_rows > 0
    with pytest.raises(InvalidArgumentError, match="LIKE"):
        lo.create_index(uri, "d", "ZONEMAP")
