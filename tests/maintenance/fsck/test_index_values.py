"""Deep fsck searches rows by their values: an index that contradicts its column is found, no sound one."""

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo

pytestmark = pytest.mark.peer

ROWS = 100
WORDS = ["", "the", "!!!", "a" * 60, "Ünïcode straße", "running runners", None, "日本語", "AbC dEf", "it's"]
KINDS = {
    "BTREE": lambda n: n,
    "BITMAP": lambda n: n % 5,
    "LABEL_LIST": lambda n: [n % 5],
    "ZONEMAP": lambda n: n,
    "BLOOMFILTER": lambda n: n,
    "INVERTED": lambda n: f"word{n % 50}",
    "NGRAM": lambda n: f"word{n % 50}",
}
SHIFT = 1000 + ROWS // 3
"""Of the values in another table: none is that of its row."""


def make(uri: Path, values: list[object], kind: str, *, by_peer: bool = False) -> Path:
    """Return the folder of the index."""
    lo.write_dataset(pa.table({"id": range(len(values)), "x": values}), uri, max_rows_per_file=ROWS // 2)
    if by_peer:
        lance.dataset(str(uri)).create_scalar_index("x", kind)
    else:
        lo.create_index(uri, "x", kind=kind)
    (found,) = (uri / "_indices").iterdir()
    return found


@pytest.mark.parametrize("by_peer", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_other_values_is_found(tmp_path: Path, kind: str, by_peer: bool) -> None:
    value = KINDS[kind]
    uri = tmp_path / "t"
    index = make(uri, [value(n) for n in range(ROWS)], kind, by_peer=by_peer)
    other = make(tmp_path / "other", [value(n + SHIFT) for n in range(ROWS)], kind, by_peer=by_peer)
    assert lo.fsck(uri, deep=True).ok
    for mine, theirs in zip(sorted(index.iterdir()), sorted(other.iterdir()), strict=True):
        if kind != "INVERTED" or mine.name != "metadata.lance":
            shutil.copy(theirs, mine)
    (finding,) = lo.fsck(uri, deep=True).findings
    assert finding.check == "index_rows_match"
    assert "lacks" in finding.message
    lo.create_index(uri, "x", kind=kind, replace=True)
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "INVERTED", "NGRAM"])
def test_a_sound_index_stays_sound_whatever_happens_to_its_rows(
    tmp_path: Path, kind: str, stable: bool
) -> None:
    uri = str(tmp_path / "t")
    rows = pa.table({"id": range(3 * len(WORDS)), "x": WORDS * 3})
    lo.write_dataset(rows, uri, max_rows_per_file=9, enable_stable_row_ids=stable)
    lo.create_index(uri, "x", kind=kind)
    steps = [
        lambda: lance.dataset(uri).update({"x": "'quite new'"}, where="id % 5 = 1"),
        lambda: lo.update(uri, {"x": "'v'"}, "id < 4"),
        lambda: lo.delete(uri, "id = 7"),
        lambda: lance.dataset(uri).optimize.compact_files(),
        lambda: lo.optimize_indices(uri),
    ]
    for step in steps:
        step()
        assert lo.fsck(uri, deep=True).findings == ()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1, 2], [], None, [None], [3, None]]),
        pa.array([["a"], [], None, [None, "b"], [""]]),
        pa.array([[float("nan"), 1.0], [-0.0]]),
    ],
    ids=["integers", "strings", "floats"],
)
def test_lists_of_any_form_are_sound(tmp_path: Path, values: pa.Array) -> None:
    lo.write_dataset(pa.table({"x": values}), tmp_path / "t", max_rows_per_file=2)
    lo.create_index(tmp_path / "t", "x", kind="LABEL_LIST")
    assert lo.fsck(tmp_path / "t", deep=True).findings == ()
