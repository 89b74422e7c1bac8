"""What is told of indices, beside what the peer tells."""

import datetime as dt

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from tests.support.unknown_index import add_unknown_index

COLUMNS = {
    "i": pa.array([None, 3, 1, 2], pa.int64()),
    "s": ["b", "a", None, "zz"],
    "f": [1.5, float("nan"), None, -2.0],
    "d": [dt.date(2020, 1, 1)] * 4,
    "t": [dt.datetime.fromtimestamp(1_577_844_184, dt.UTC).replace(tzinfo=None)] * 4,
    "b": [True, False, None, True],
    "n": pa.array([None] * 4, pa.int64()),
    "y": [b"ab", b"c", b"d", b"\xff"],
}


@pytest.fixture
def uri(tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table(COLUMNS), uri)
    return uri


@pytest.mark.peer
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("by_peer", [False, True])
def test_statistics_of_a_btree_are_those_of_the_peer(uri, column, by_peer):
    if by_peer:
        lance.dataset(uri).create_scalar_index(column, "BTREE")
    else:
        lo.create_index(uri, column)
    lance.write_dataset(pa.table(COLUMNS), uri, mode="append")
    lo.optimize_indices(uri, merge_segments=0)
    lance.write_dataset(pa.table(COLUMNS), uri, mode="append")
    ours = lo.index_statistics(lo.dataset(uri), f"{column}_idx")
    assert ours == lance.dataset(uri).stats.index_stats(f"{column}_idx")
    assert ours["num_indexed_rows_per_delta"] == [4, 4]
    assert (ours["num_unindexed_rows"], ours["num_segments"]) == (4, 2)


@pytest.mark.peer
def test_descriptions_are_those_of_the_peer(uri):
    for column in ("i", "s", "b"):
        lo.create_index(uri, column)
    lance.dataset(uri).create_scalar_index("s", "BITMAP", name="bits")
    lance.write_dataset(pa.table(COLUMNS), uri, mode="append")
    ours, theirs = lo.describe_indices(lo.dataset(uri)), lance.dataset(uri).describe_indices()
    assert [item.name for item in ours] == sorted(item.name for item in theirs)
    for one, other in zip(ours, sorted(theirs, key=lambda item: item.name), strict=True):
        for name in ("index_type", "type_url", "num_rows_indexed", "total_size_bytes"):
            assert getattr(one, name) == getattr(other, name), name
        assert (list(one.fields), list(one.field_names)) == (other.fields, other.field_names)
        assert (one.num_segments, one.coverage, one.num_fragments_unindexed) == (1, 0.5, 1)


def test_an_index_of_an_unknown_kind_is_listed_and_named(uri):
    add_unknown_index(uri, "i")
    (item,) = lo.describe_indices(lo.dataset(uri))
    assert (item.name, item.index_type, item.readable, item.coverage) == ("strange", "Strange", False, 1.0)
    assert lo.index_statistics(lo.dataset(uri), "strange")["indices"] == [{}]
    with pytest.raises(InvalidArgumentError, match="no index 'other'") as caught:
        lo.index_statistics(lo.dataset(uri), "other")
    assert "strange" in caught.value.hint


def test_a_damaged_segment_says_what_is_wrong(uri):
    lo.create_index(uri, "i")
    dataset = lo.dataset(uri)
    dataset.store.delete(f"{dataset.indices[0].directory}/page_data.lance")
    (told,) = lo.index_statistics(lo.dataset(uri), "i_idx")["segments"]
    assert "page_data.lance" in told["error"]
