"""Detached versions: committed beside the history, opened by number, listed apart; the peer reads them."""

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.operations import Append, Delete, Restore
from tests.support.interop import our_dataset, rows


@pytest.fixture
def uri(tmp_path):
    uri = str(tmp_path / "t.lance")
    our_dataset(uri, [3, 2])
    return uri


@pytest.mark.peer
def test_a_detached_version_is_beside_the_history(uri):
    head = lo.dataset(uri)
    made = lo.commit(head, Append(lo.write_fragments(rows(5, 7), uri)), detached=True, commit_message="try")
    assert made.version >> 63 == 1
    lo.append(uri, rows(7, 8))
    assert lo.dataset(uri).version == lance.dataset(uri).version == 3
    assert [info.version for info in head.versions()] == [1, 2, 3]
    assert [info.version for info in lo.dataset(uri).detached_versions()] == [made.version]
    for found in (lo.dataset(uri, made.version).to_table(), lance.dataset(uri, made.version).to_table()):
        assert found["x"].to_pylist() == list(range(7))
    again = lo.commit(lo.dataset(uri, made.version), Delete((), (0,), "true"), detached=True)
    assert lo.dataset(uri, again.version).to_table()["x"].to_pylist() == [3, 4, 5, 6]
    lo.cleanup(uri, retain_versions=1, delete_unverified=True)
    assert lo.dataset(uri, again.version).count_rows() == 4
    assert lance.dataset(uri, again.version).count_rows() == 4


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_those_of_the_peer_are_listed_and_gone_on_with(tmp_path, stable):
    uri = str(tmp_path / "s.lance")
    our_dataset(uri, [3], enable_stable_row_ids=stable)
    part = lance.fragment.write_fragments(rows(3, 5), uri)
    theirs = lance.LanceDataset.commit(uri, lance.LanceOperation.Append(part), read_version=1, detached=True)
    (info,) = lo.dataset(uri).detached_versions()
    assert info.version == theirs.version
    ours = lo.commit(lo.dataset(uri, info.version), Delete((), (0,), "true"), detached=True)
    assert lance.dataset(uri, ours.version).to_table()["x"].to_pylist() == [3, 4]


def test_what_cannot_be_detached_is_refused(uri):
    head = lo.dataset(uri)
    for wrong in (
        lambda: lo.commit(head, Restore(1), detached=True),
        lambda: lo.commit(head, Append(()), detached=True, job_key="k"),
        lambda: lo.commit(head, Delete((), (9,), ""), detached=True),
    ):
        with pytest.raises(InvalidArgumentError):
            wrong()
    made = lo.commit(head, Append(lo.write_fragments(rows(5, 7), uri)), detached=True)
    with pytest.raises(InvalidArgumentError, match="no successors"):
        lo.commit(lo.dataset(uri, made.version), Append(lo.write_fragments(rows(5, 7), uri)))
    assert lo.dataset(uri).version == 2
