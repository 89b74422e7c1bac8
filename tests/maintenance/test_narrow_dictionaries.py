"""Narrow dictionaries whose values do not fit into one file: what fsck, plans and health say."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, SchemaMismatchError
from lance_ops.maintenance.fsck.findings import Severity
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.health.verdicts import judge_dataset

pytestmark = pytest.mark.peer


def rows(values: int, offset: int, key: pa.DataType, count: int = 200) -> pa.Table:
    """Rows whose dictionary has so many values of its own."""
    keys = pa.array([number % values for number in range(count)], key)
    words = pa.array([f"v{offset + number}" for number in range(values)])
    return pa.table({"x": range(count), "d": pa.DictionaryArray.from_arrays(keys, words)})


def write(uri: Path, *tables: pa.Table, version: str = "2.1") -> None:
    for number, table in enumerate(tables):
        mode = "append" if number else "create"
        lance.write_dataset(table, str(uri), mode=mode, data_storage_version=version)


def due(uri: Path) -> tuple[bool, str]:
    (verdict,) = (
        item
        for item in judge_dataset(lo.dataset(uri), MaintenancePolicy(max_small_fragments=1))
        if item.operation == "compact"
    )
    return verdict.due, str(verdict)


@pytest.mark.parametrize(
    ("key", "values", "version"),
    [
        (pa.int8(), 100, "2.1"),
        (pa.int8(), 65, "2.2"),
        (pa.uint8(), 130, "2.1"),
        (pa.int16(), 17_000, "2.2"),
    ],
)
def test_fsck_finds_what_a_compaction_of_pylance_has_overflowed(
    key: pa.DataType, values: int, version: str, tmp_path: Path
) -> None:
    uri, count = tmp_path / "t.lance", max(200, values)
    write(uri, rows(values, 0, key, count), rows(values, values, key, count), version=version)
    assert lo.fsck(uri, deep=True).findings == ()
    before = lo.dataset(uri).version
    lance.dataset(str(uri)).optimize.compact_files()
    with pytest.raises((OSError, ValueError)):
        lance.dataset(str(uri)).to_table()
    with pytest.raises(LanceOpsError):
        lo.dataset(uri).to_table()
    (finding,) = lo.fsck(uri, deep=True).findings
    assert (finding.check, finding.severity) == ("rows_match", Severity.ERROR)
    assert "column 'd' of fragment 2" in finding.message
    lo.restore(uri, before)
    assert lo.fsck(uri, deep=True).findings == ()


@pytest.mark.parametrize(("key", "values"), [(pa.int8(), 60), (pa.uint8(), 120), (pa.int16(), 100)])
def test_dictionaries_that_fit_together_are_sound_and_compacted(
    key: pa.DataType, values: int, tmp_path: Path
) -> None:
    uri = tmp_path / "t.lance"
    write(uri, rows(values, 0, key), rows(values, values, key))
    assert due(uri)[0]
    lance.dataset(str(uri)).optimize.compact_files()
    assert lo.fsck(uri, deep=True).findings == ()
    assert lo.dataset(uri).to_table() == lance.dataset(str(uri)).to_table()


def test_health_and_plan_say_what_stands_in_the_way(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    write(uri, *(rows(100, 100 * number, pa.int8()) for number in range(3)))
    expected = lo.dataset(uri).to_table()["d"].to_pylist()
    assert "the dictionaries of d together" in str(lo.compact(uri, dry_run=True))
    result = lo.compact(uri)
    assert not result.changed
    assert "alter_columns" in " ".join(result.notes)
    is_due, text = due(uri)
    assert not is_due
    assert "fragments 0-2 cannot be merged" in text
    # One pair that fits is enough for a compaction, after which the rest is not due for ever either.
    lo.append(uri, rows(20, 250, pa.int8()))
    assert due(uri)[0]
    assert lo.compact(uri).changed
    assert len(lo.dataset(uri).fragments) == 3
    assert not due(uri)[0]
    lo.alter_columns(uri, {"path": "d", "data_type": pa.dictionary(pa.int32(), pa.string())})
    assert due(uri)[0]
    lo.compact(uri)
    assert len(lo.dataset(uri).fragments) == 1
    assert lo.dataset(uri).to_table()["d"].to_pylist()[:600] == expected
    assert lance.dataset(str(uri)).to_table()["d"].to_pylist()[:600] == expected


@pytest.mark.parametrize(
    ("where", "left"), [("x >= 0", 100), ("x % 100 < 20", 100), ("x % 100 < 90 AND x < 100", None)]
)
def test_an_update_in_place_keeps_the_values_that_rows_have(
    where: str, left: int | None, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(100, 0, pa.int8()), uri, data_storage_version="2.1")
    if left is None:
        with pytest.raises(SchemaMismatchError, match=r"d: 190 different values .* room for 128.*rewrite"):
            lo.update(uri, {"d": "concat(d, 'x')"}, where, rewrite="columns")
        assert lo.dataset(uri).version == 1
        return
    lo.update(uri, {"d": "concat(d, 'x')"}, where, rewrite="columns")
    found = lo.dataset(uri).to_table()["d"].to_pylist()
    assert found == lance.dataset(uri).to_table()["d"].to_pylist()
    changed = [where == "x >= 0" or number % 100 < 20 for number in range(200)]
    assert found == [f"v{number % 100}{'x' * new}" for number, new in enumerate(changed)]
    assert len(set(found)) == left
