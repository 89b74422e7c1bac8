"""Zones that do not hold the rows that they should: never believed, and made anew by upkeep."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptFileError, UnreadableIndexError, UnreadableIndexWarning
from lance_ops.index.coverage import coverage
from lance_ops.index.kind import IndexKind
from lance_ops.index.registry import kind_of
from lance_ops.index.zones.file import ZoneFile, write_zone_file
from lance_ops.index.zones.kind import ZoneKind
from lance_ops.index.zones.layout import ZONE_FIELDS, ZoneLayout
from lance_ops.table.manifest.index_metadata import IndexMetadata
from tests.support.zones import values

KINDS = [("ZONEMAP", "rows_per_zone"), ("BLOOMFILTER", "number_of_items")]


def made(path: Path, kind: str, parameter: str) -> tuple[ZoneKind, IndexMetadata]:
    """Two fragments, the first rows of one deleted, under an index of small zones."""
    lo.write_dataset(values(range(60)), path, max_rows_per_file=30)
    lo.delete(path, "id < 5")
    lo.create_index(path, "s", kind, parameters={parameter: 4})
    (segment,) = lo.dataset(path).indices
    found: IndexKind | None = kind_of(segment)
    assert isinstance(found, ZoneKind)
    return found, segment


def change(path: Path, kind: ZoneKind, segment: IndexMetadata, how: Callable[[pa.Table], pa.Table]) -> None:
    """Write the file of a segment anew, as one who keeps no null rows."""
    store = lo.dataset(path).store
    name = f"{segment.directory}/{kind.file_name}"
    zones = ZoneFile.open(store, name, kind.summary_names).reader.read_table()
    store.delete(name)
    write_zone_file(store, name, zones.schema.remove_metadata(), [how(zones)], {})


def count_live_rows(zones: pa.Table) -> pa.Table:
    """As the first writers placed zones beside deleted rows."""
    starts = zones["zone_start"].to_numpy().copy()
    starts[zones["fragment_id"].to_numpy() == 0] -= np.uint64(5)
    return zones.set_column(
        zones.column_names.index("zone_start"), zones.schema.field("zone_start"), pa.array(starts)
    )


def assert_scanned_rightly(path: Path) -> None:
    dataset = lo.dataset(path)
    for sql in ("s = 'a7'", "s = 'b5'", "s IS NULL"):
        scanned = dataset.scanner(filter=sql, pruners=[]).to_table()
        with pytest.warns(UnreadableIndexWarning, match="zones are missing for some rows"):
            assert dataset.to_table(filter=sql).equals(scanned)
        assert scanned.num_rows


DAMAGES = {
    "live rows counted": count_live_rows,
    "zones left out": lambda zones: zones.slice(2),
    "no zones": lambda zones: zones.slice(0, 0),
}


@pytest.mark.parametrize(("kind", "parameter"), KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_zones_that_leave_rows_out_are_not_believed(
    tmp_path: Path, kind: str, parameter: str, damage: str
) -> None:
    found, segment = made(tmp_path, kind, parameter)
    change(tmp_path, found, segment, DAMAGES[damage])
    assert_scanned_rightly(tmp_path)
    with pytest.raises(UnreadableIndexError):
        found.verify(lo.dataset(tmp_path), segment, deep=False)
    assert not lo.fsck(tmp_path).ok


@pytest.mark.parametrize(("kind", "parameter"), KINDS)
@pytest.mark.parametrize("operation", ["compact", "optimize"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_upkeep_makes_them_anew(
    tmp_path: Path, kind: str, parameter: str, operation: str, damage: str
) -> None:
    found, segment = made(tmp_path, kind, parameter)
    change(tmp_path, found, segment, DAMAGES[damage])
    if operation == "compact":
        lo.compact(tmp_path)
    else:
        assert found.stale(lo.dataset(tmp_path), segment) is not None
        lo.optimize_indices(tmp_path)
    dataset = lo.dataset(tmp_path)
    assert [item.ratio for item in coverage(dataset)] == [1.0]
    assert lo.fsck(tmp_path, deep=True).ok
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnreadableIndexWarning)
        for sql in ("s = 'a7'", "s = 'b5'", "s IS NULL"):
            assert dataset.to_table(filter=sql).equals(dataset.scanner(filter=sql, pruners=[]).to_table())


@pytest.mark.parametrize(("kind", "parameter"), KINDS)
def test_zones_of_the_first_writers_are_used_beside_rows_that_were_never_deleted(
    tmp_path: Path, kind: str, parameter: str
) -> None:
    lo.write_dataset(values(range(60)), tmp_path, max_rows_per_file=30)
    lo.create_index(tmp_path, "s", kind, parameters={parameter: 4})
    (segment,) = lo.dataset(tmp_path).indices
    found = kind_of(segment)
    assert isinstance(found, ZoneKind)
    change(tmp_path, found, segment, lambda zones: zones)
    lo.delete(tmp_path, "id > 57")
    dataset = lo.dataset(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnreadableIndexWarning)
        for sql in ("s = 'a7'", "s IS NULL"):
            assert dataset.to_table(filter=sql).equals(dataset.scanner(filter=sql, pruners=[]).to_table())
    assert found.stale(dataset, segment) is None
    lo.optimize_indices(tmp_path, rebuild=True)
    assert lo.fsck(tmp_path, deep=True).ok


@pytest.mark.parametrize("name", ["fragment_id", "zone_start", "zone_length"])
def test_a_zone_that_does_not_say_where_it_lies_is_damage(name: str) -> None:
    columns = {field.name: pa.array([0, 1], field.type) for field in ZONE_FIELDS}
    columns[name] = pa.array([0, None], pa.uint64())
    with pytest.raises(CorruptFileError, match="without a place") as caught:
        ZoneLayout.of(pa.table(columns), "zonemap.lance")
    assert caught.value.field == name
