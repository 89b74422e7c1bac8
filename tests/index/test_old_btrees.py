"""BTREE indices that releases of pylance before 0.35 built: searched, merged and moved along."""

import shutil
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.index.coverage import coverage
from lance_ops.index.search.pruner import IndexPruner
from tests.fixtures.write_btrees import LAST, SECOND, build_rows

FIXTURES = Path(__file__).parents[1] / "fixtures"
RELEASES = ("0.20.0", "0.25.0", "0.33.0")
LIVE = [row for row in build_rows(0, LAST).to_pylist() if row["id"] % 10 != 7 or row["id"] >= SECOND]
FILTERS = {
    "i = 0": lambda row: row["i"] == 0,
    "i = 42": lambda row: row["i"] == 42,
    "i < -90": lambda row: row["i"] is not None and row["i"] < -90,
    "i IN (3, 4, 99)": lambda row: row["i"] in (3, 4, 99),
    "i = 1000": lambda row: False,
    "i IS NULL": lambda row: row["i"] is None,
    "i >= 99 OR i IS NULL": lambda row: row["i"] is None or row["i"] >= 99,
    "s = ''": lambda row: row["s"] == "",
    "s < '1'": lambda row: row["s"] is not None and row["s"] < "1",
    "s IS NULL": lambda row: row["s"] is None,
    "s LIKE '88%'": lambda row: row["s"] is not None and row["s"].startswith("88"),
    "s = '13' AND i = -19": lambda row: (row["s"], row["i"]) == ("13", -19),
}
NARROW = ("i = 42", "s = ''", "i IS NULL")
"""What only one of two pages of an index can hold, so that it is better than a scan."""


@pytest.fixture(params=RELEASES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    copied = tmp_path / "t.lance"
    shutil.copytree(FIXTURES / f"btrees-{request.param}", copied)
    return copied


def expected(sql: str) -> list[int]:
    return [row["id"] for row in LIVE if FILTERS[sql](row)]


def found(path: Path, sql: str) -> list[int]:
    return sorted(lo.dataset(path).scanner(["id"], sql).to_table()["id"].to_pylist())


def by_peer(path: Path, sql: str) -> list[int]:
    return sorted(lance.dataset(str(path)).to_table(columns=["id"], filter=sql)["id"].to_pylist())


def is_used(path: Path, sql: str) -> bool:
    dataset = lo.dataset(path)
    return IndexPruner().prune(dataset, dataset.parse_filter(sql)) is not None


def test_the_fixtures_hold_what_they_are_for() -> None:
    pages = {name: (FIXTURES / f"btrees-{name}").glob("_indices/*/page_data.lance") for name in RELEASES}
    assert {name: next(files).read_bytes()[-8:-4] for name, files in pages.items()} == {
        "0.20.0": b"\0\0\2\0",
        "0.25.0": b"\0\0\3\0",
        "0.33.0": b"\0\0\3\0",
    }


@pytest.mark.parametrize("sql", FILTERS)
def test_they_answer_what_the_rows_say(path: Path, sql: str) -> None:
    assert found(path, sql) == expected(sql)
    assert is_used(path, sql) or sql not in NARROW
    assert lo.dataset(path).count_rows(sql) == len(expected(sql))


@pytest.mark.peer
@pytest.mark.parametrize("merge_segments", [0, 1])
def test_they_are_merged_with_what_they_do_not_cover(path: Path, merge_segments: int) -> None:
    result = lo.optimize_indices(path, merge_segments=merge_segments)
    assert result.coverage_after == 1.0
    assert result.skipped == ()
    for sql in FILTERS:
        assert found(path, sql) == expected(sql)
        assert is_used(path, sql) or sql not in NARROW
        # Of a table with the nulls of 0.1 the peer answers wrongly while the old segment is there.
        if merge_segments:
            assert by_peer(path, sql) == expected(sql)


@pytest.mark.peer
def test_they_follow_the_rows_of_a_compaction(path: Path) -> None:
    result = lo.compact(path, strategy="rows")
    assert (result.indices_remapped, result.skipped) == (2, ())
    assert {item.ratio for item in coverage(lo.dataset(path))} == {(len(LIVE) - 30) / len(LIVE)}
    for sql in FILTERS:
        assert found(path, sql) == by_peer(path, sql) == expected(sql)
        assert is_used(path, sql) or sql not in NARROW


@pytest.mark.peer
def test_the_peer_goes_on_from_what_we_made_of_them(path: Path) -> None:
    lo.compact(path)
    lo.optimize_indices(path)
    lance.write_dataset(build_rows(LAST, LAST + 40), str(path), mode="append")
    lance.dataset(str(path)).optimize.optimize_indices()
    lance.dataset(str(path)).optimize.compact_files()
    more = [*LIVE, *build_rows(LAST, LAST + 40).to_pylist()]
    for sql, matches in FILTERS.items():
        assert found(path, sql) == by_peer(path, sql) == [row["id"] for row in more if matches(row)]


def test_fsck_finds_nothing_wrong_with_them(path: Path) -> None:
    assert not [finding for finding in lo.fsck(path, deep=True).findings if "index" in finding.message]
