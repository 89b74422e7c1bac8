"""Where the rows of a segment lie now, and which of them a search may find."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptFileError, UnreadableIndexError
from lance_ops.index.reading import NOWHERE, check_addresses
from lance_ops.index.registry import kind_of
from lance_ops.index.search import locate as locating
from lance_ops.index.search.locate import RowLocator
from lance_ops.table.manifest.row_set import RowSet


@pytest.fixture
def locate(tmp_path):
    lo.write_dataset(pa.table({"x": range(6)}), tmp_path, max_rows_per_file=3)
    lo.create_index(tmp_path, "x")
    lo.append(tmp_path, pa.table({"x": [6, 7]}))
    lo.delete(tmp_path, "x = 1")
    dataset = lo.dataset(tmp_path)
    (segment,) = dataset.indices
    return lambda wanted: RowLocator(dataset, segment, kind_of(segment), wanted)


def addresses(*places: tuple[int, int]) -> np.ndarray:
    return np.array([(fragment << 32) + offset for fragment, offset in places], np.uint64)


@pytest.mark.parametrize("few", [0, 1 << 12], ids=["many rows", "few rows"])
def test_deleted_uncovered_and_unwanted_rows_do_not_count(locate, monkeypatch, few):
    monkeypatch.setattr(locating, "_FEW_ROWS", few)
    asked = addresses((1, 2), (0, 1), (0, 0), (2, 0), (1, 0))
    found, counts = locate(None)(asked)
    assert counts.tolist() == [True, False, True, False, True]
    assert found[counts].tolist() == asked[counts].tolist()
    wanted = RowSet.of(addresses((0, 0), (0, 1), (1, 1), (2, 0)))
    assert locate(wanted)(asked)[1].tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("place", [(99, 0), (0, 3)])
def test_rows_that_cannot_be_make_a_segment_unreadable(locate, place):
    with pytest.raises(UnreadableIndexError, match="x_idx"):
        locate(None)(addresses((0, 0), place))


@pytest.mark.parametrize("highest", [5, 1 << 16, (1 << 32) - 3])
def test_rows_that_can_be_pass_whatever_the_ids_of_fragments(tmp_path, highest):
    lo.write_dataset(pa.table({"x": range(6)}), tmp_path, max_rows_per_file=3)
    manifest = lo.dataset(tmp_path).manifest
    first, second = manifest.fragments
    fragments = (first.replace(id=highest), second.replace(id=1))
    manifest = replace(manifest, fragments=fragments, max_fragment_id=highest)
    check_addresses(manifest, np.append(addresses((1, 2), (highest, 0), (highest, 2), (0, 9)), NOWHERE), "p")
    check_addresses(manifest, addresses((0, 7)), "p")
    for place in ((1, 3), (highest, 3), (highest + 1, 0)):
        with pytest.raises(CorruptFileError):
            check_addresses(manifest, addresses((1, 0), place, (highest, 0)), "p")
