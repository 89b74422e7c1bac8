"""Full-text segments after a compaction removed rows of theirs: no reader meets the documents of those."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.inverted.partition import open_partitions
from lance_ops.index.row_id_files import GONE_FRAGMENT, is_gone

pytestmark = pytest.mark.peer

WORDS = ["amber", "birch", "cedar", "delta", "ember"]


def texts(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"id": numbers, "w": [f"{WORDS[n % 5]} {WORDS[n // 5 % 5]}" for n in numbers]})


def opened(uri: str):
    dataset = lo.dataset(uri)
    (segment,) = dataset.indices
    return open_partitions(*dataset.bases.index_directory(segment))


def check(uri: str) -> None:
    """Hits of both are those of the texts, with the same scores."""
    rows = lo.dataset(uri).to_table(["id", "w"])
    for query in ("amber", "birch cedar"):
        right = {
            number
            for number, text in zip(rows["id"].to_pylist(), rows["w"].to_pylist(), strict=True)
            if not set(text.split()).isdisjoint(query.split())
        }
        asked = {"full_text_query": {"query": query, "columns": ["w"]}, "limit": 1000}
        ours = lo.dataset(uri).to_table(["id"], **asked)
        theirs = lance.dataset(uri).to_table(columns=["id"], **asked)
        assert set(ours["id"].to_pylist()) == set(theirs["id"].to_pylist()) == right
        scores = dict(zip(theirs["id"].to_pylist(), theirs["_score"].to_pylist(), strict=True))
        told = [scores[number] for number in ours["id"].to_pylist()]
        assert np.allclose(ours["_score"].to_pylist(), told, atol=1e-5)


@pytest.mark.parametrize("format_version", [0, 1, 2, 3])
@pytest.mark.parametrize("with_position", [False, True])
def test_documents_of_rows_that_are_gone_are_named_as_such_or_left_out(
    tmp_path: Path, format_version: int, with_position: bool
) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(texts(0, 300), uri, max_rows_per_file=100)
    parameters = {"format_version": format_version, "with_position": with_position}
    lo.create_index(uri, "w", "INVERTED", parameters=parameters)
    for turn in range(2):
        lo.append(uri, texts(300 + 40 * turn, 40))
        # Merging keeps to what the index is for: readers that know of no deleted fragments.
        lo.optimize_indices(uri, merge_segments=9)
        lo.delete(uri, f"id % 7 = {turn}")
        assert lo.compact(uri).indices_remapped == 1
        layout, partitions = opened(uri)
        gone = np.concatenate([is_gone(partition.documents.rows) for partition in partitions])
        assert layout.names_deleted is (format_version > 0)
        assert bool(gone.any()) is (format_version > 0)
        assert layout.deleted_fragments == ({GONE_FRAGMENT} if format_version else set())
        assert lo.fsck(uri, deep=True).ok
        check(uri)


def test_a_segment_without_gone_rows_names_none(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(texts(0, 300), uri, max_rows_per_file=100)
    lo.create_index(uri, "w", "INVERTED")
    assert lo.compact(uri).indices_remapped == 1
    assert opened(uri)[0].deleted_fragments == set()
    check(uri)
