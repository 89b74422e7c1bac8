"""All rows go at once, as with the peer; nothing is read."""

import shutil

import lance
import pytest

import lance_ops as lo
from tests.support.interop import our_dataset, peer_table, rows


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_a_truncated_table_is_that_of_the_peer(tmp_path, stable):
    seen = []
    for side in ("ours", "peers"):
        uri = str(tmp_path / side)
        our_dataset(uri, [4, 3], enable_stable_row_ids=stable)
        lo.create_index(uri, "x")
        lo.delete(uri, "x = 2")
        if side == "ours":
            assert "6 rows in 2 fragments" in str(lo.truncate(uri, dry_run=True))
            done = lo.truncate(uri, job_key="k")
            assert (done.rows_deleted, done.fragments_removed) == (6, 2)
            assert lo.truncate(uri, job_key="k").already_committed
        else:
            lance.dataset(uri).truncate_table()
        assert peer_table(uri).num_rows == lo.dataset(uri).count_rows() == 0
        lo.append(uri, rows(0, 2))
        manifest = lo.dataset(uri).manifest
        seen.append((manifest.fragments[0].id, manifest.next_row_id, manifest.max_fragment_id))
        seen.append(peer_table(uri, filter="x = 1").to_pylist())
        assert lo.dataset(uri, 4).count_rows() == 6
    assert seen[:2] == seen[2:]


def test_rows_are_not_read_and_an_empty_table_gets_no_version(uri):
    our_dataset(uri, [4, 3])
    shutil.rmtree(f"{uri}/data")
    lo.truncate(uri)
    version = lo.dataset(uri).version
    assert not lo.truncate(uri).changed
    assert lo.dataset(uri).version == version


ACTS = {
    "append": (lambda uri: lo.append(uri, rows(7, 9)), [7, 8]),
    "compact": (lo.compact, []),
    "delete": (lambda uri: lo.delete(uri, "x = 1"), []),
    "update": (lambda uri: lance.dataset(uri).update({"x": "x + 1"}), []),
}


@pytest.mark.parametrize("act", ACTS)
def test_rows_that_come_meanwhile_stay_and_those_that_move_go(uri, act):
    our_dataset(uri, [4, 3])
    work, left = ACTS[act]
    acts = [work]

    def other(event):
        if event.message == "committing" and acts:
            acts.pop()(uri)

    lo.truncate(uri, progress=other)
    assert not acts
    assert lo.dataset(uri).to_table()["x"].to_pylist() == left
