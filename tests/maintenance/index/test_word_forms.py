"""Text segments of both libraries in one index: their words are kept in one form, or the peer fails."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo

pytestmark = pytest.mark.peer

QUERY = {"full_text_query": "common", "columns": ["id"]}


def rows(start: int, stop: int) -> pa.Table:
    ids = list(range(start, stop))
    return pa.table({"id": ids, "s": [f"word{number % 50} common" for number in ids]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Two segments of the peer, and rows that none covers."""
    path = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 300), path)
    lance.dataset(path).create_scalar_index("s", "INVERTED")
    lance.write_dataset(rows(300, 400), path, mode="append")
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    lance.write_dataset(rows(400, 500), path, mode="append")
    return path


def found(uri: str) -> list[list[int]]:
    return [sorted(reader.dataset(uri).to_table(**QUERY)["id"].to_pylist()) for reader in (lance, lo)]


@pytest.mark.parametrize("merge", [0, 1, None])
def test_the_peer_goes_on_merging_what_we_refreshed(uri: str, merge: int | None) -> None:
    lo.optimize_indices(uri, merge_segments=merge)
    assert found(uri) == [[*range(500)]] * 2
    lance.write_dataset(rows(500, 600), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    lance.write_dataset(rows(600, 700), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=10)
    assert found(uri) == [[*range(700)]] * 2
    assert len(lo.dataset(uri).indices) == 1


@pytest.mark.parametrize("version", [0, 1])
def test_an_index_of_older_forms_is_written_in_one_once_the_peer_adds_to_it(uri: str, version: int) -> None:
    lo.create_index(uri, "s", "INVERTED", replace=True, parameters={"format_version": version})
    lance.write_dataset(rows(500, 600), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    lance.write_dataset(rows(600, 700), uri, mode="append")
    assert "pylance does not merge newly written segments" in str(
        lo.optimize_indices(uri, merge_segments=0, dry_run=True)
    )
    assert lo.optimize_indices(uri, merge_segments=0).segments_removed == 2
    lance.write_dataset(rows(700, 800), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=10)
    assert found(uri) == [[*range(800)]] * 2


def test_segments_of_ours_stay_apart(uri: str) -> None:
    lo.optimize_indices(uri)
    lance.write_dataset(rows(500, 600), uri, mode="append")
    assert lo.optimize_indices(uri, merge_segments=0).segments_removed == 0
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=10)
    assert found(uri) == [[*range(600)]] * 2
