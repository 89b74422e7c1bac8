"""Values that are stored in a column of another type: those of CAST, by every operation, as in pylance."""

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import SchemaMismatchError

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.peer

TICKS = [0, 1_714_557_600, None, -3]
BERLIN = pa.timestamp("us", "Europe/Berlin")
SOURCES = {
    "d32": pa.array([0, 19_844, None, -3], pa.date32()),
    "d64": pa.array([0, 19_844, None, -3], pa.int32()).cast(pa.date32()).cast(pa.date64()),
    **{
        f"t{unit}": pa.array(TICKS, pa.timestamp("s")).cast(pa.timestamp(unit)) for unit in ("ms", "us", "ns")
    },
    "tiny": pa.array([0, 1_714_557_600_123_456_789, None, 120_000_000], pa.timestamp("ns")),
    "utc": pa.array(TICKS, pa.timestamp("s")).cast(pa.timestamp("us", "UTC")),
    "berlin": pa.array(TICKS, pa.timestamp("s")).cast(BERLIN),
    "c32": pa.array([0, 36_001, None, 3], pa.time32("ms")),
    "c64": pa.array([0, 3_600_000_001_001, None, 3], pa.time64("ns")),
    "f32": pa.array([1.0, 0.1, None, 1e-7], pa.float32()),
    "f64": pa.array([1e20, float("nan"), None, -0.0]),
    "i": pa.array([0, 1, None, -3]),
    "b": pa.array([True, False, None, True]),
}
WALL_CLOCKS = [name for name in SOURCES if name[0] in "dt" and name != "tiny"]
TARGETS = [
    *((name, kind) for name in SOURCES for kind in (pa.string(), pa.large_string())),
    *((name, BERLIN) for name in WALL_CLOCKS),
    *((name, pa.timestamp("ns", "+05:30")) for name in WALL_CLOCKS),
]


def new_name(source: str, kind: pa.DataType) -> str:
    return f"{source}_{kind.id}"


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    empty = {new_name(name, kind): pa.nulls(4, kind) for name, kind in TARGETS}
    return pa.table({"id": range(4), **SOURCES, **empty})


def test_an_update_stores_what_the_peer_stores(rows, tmp_path):
    ours, theirs = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance")
    values = {new_name(name, kind): name for name, kind in TARGETS}
    for uri in (ours, theirs):
        lance.write_dataset(rows, uri, data_storage_version="2.1")
    lo.update(ours, values)
    lance.dataset(theirs).update(values)
    expected = lance.dataset(theirs).to_table().sort_by("id")
    found = lo.dataset(ours).to_table().sort_by("id")
    wrong = [
        name
        for name in rows.column_names
        if not found[name].combine_chunks().equals(expected[name].combine_chunks())
    ]
    # NaN equals nothing, not even itself.
    assert [name for name in wrong if name != "f64"] == []


class Late:
    """Lets another writer commit once, just before the version is stored."""

    def __init__(self, other) -> None:
        self.others = [other]

    def commit(self, store, location, manifest) -> None:
        if self.others:
            self.others.pop()()
        store.put(location.path, manifest, if_absent=True)


def alter(library, uri: str, name: str) -> None:
    alteration = {"path": name, "data_type": BERLIN}
    library.dataset(uri).alter_columns(alteration) if library is lance else lo.alter_columns(uri, alteration)


@pytest.mark.parametrize("name", [name for name in WALL_CLOCKS if name[0] == "t"])
def test_a_change_of_type_and_all_that_goes_on_beside_it_agree(rows, tmp_path, name):
    """The altered column, rows that are appended beside, and the older values in a change feed."""
    table = rows.select(["id", name])
    ours, theirs = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance")
    for uri in (ours, theirs):
        lance.write_dataset(table, uri, enable_stable_row_ids=True, data_storage_version="2.1")
    begun = lo.dataset(ours).version
    lo.append(ours, table, committer=Late(lambda: alter(lo, ours, name)))
    alter(lance, theirs, name)
    expected = lance.dataset(theirs).to_table()[name].to_pylist()
    assert lo.dataset(ours).to_table()[name].to_pylist() == expected * 2
    lo.delete(ours, "id >= 0")
    deleted = lo.dataset(ours).changes(begun, change_types=["delete"]).read_all()
    assert deleted[name].to_pylist() == expected


def test_wall_clock_times_that_the_zone_skips_are_refused(tmp_path):
    uri = str(tmp_path / "t.lance")
    skipped = pa.array(["2024-03-31 02:30:00"]).cast(pa.timestamp("us"))
    lo.write_dataset(pa.table({"t": skipped, "z": pa.nulls(1, BERLIN)}), uri)
    with pytest.raises(SchemaMismatchError, match="2024-03-31 02:30:00 is no timestamp"):
        lo.update(uri, {"z": "t"})
