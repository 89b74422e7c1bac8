"""A commit from an old read version, after a version since then was cleaned away (invariant 1)."""

import shutil
from datetime import timedelta

import lance
import pytest

from lance_ops.errors import RetryableCommitConflictError
from lance_ops.pb import transaction_pb2
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.listing import locate
from lance_ops.table.transaction.operations import Operation
from lance_ops.table.transaction.transaction import decode_transaction, encode_transaction
from tests.support.peer_operations import peer_operation
from tests.support.table_actions import commit, reserve_fragments
from tests.support.tables import (
    append,
    append_operation,
    create,
    delete,
    delete_operation,
    rewrite_operation,
    rows,
    values,
)

pytestmark = pytest.mark.peer


@pytest.fixture
def gap(tmp_path):
    """The dataset at version 2, and operations worked out on it, by name.

    Version 3 deletes the rows 3 and 13, version 4 appends.
    """
    dataset = create(str(tmp_path / "table"), rows(0, 20), rows_per_fragment=10)
    result, ids = reserve_fragments(dataset, 1)
    base = result.dataset
    operations: dict[str, Operation] = {
        "append": append_operation(base, rows(100, 103)),
        "delete": delete_operation(base, {0: [5]}),
        "compaction": rewrite_operation(base, [0, 1], new_ids=ids),
    }
    delete(base, {0: [3], 1: [3]})
    append(base.latest(), rows(20, 25))
    return base, operations


def clean_away(dataset: Dataset) -> None:
    """The peer keeps the newest version only."""
    lance.dataset(dataset.uri).cleanup_old_versions(older_than=timedelta(0))
    assert [info.version for info in dataset.versions()] == [4]


EXPECTED = sorted(set(range(25)) - {3, 13})


def test_the_peer_commits_over_the_gap_and_brings_deleted_rows_back(gap):
    """The reason for the rule: the peer looks at the transactions that are left, and skips the others."""
    base, operations = gap
    # Where every version is there, the peer refuses the compaction: rows that it copied were deleted.
    whole = f"{base.uri}-whole"
    shutil.copytree(base.uri, whole)
    with pytest.raises(OSError, match=r"(?i)conflict|preempted|retry"):
        lance.LanceDataset.commit(whole, peer_operation(operations["compaction"]), read_version=base.version)
    assert sorted(lance.dataset(whole).to_table()["a"].to_pylist()) == EXPECTED
    # The handle is open since before the cleanup, as that of a long compaction is.
    writer = lance.dataset(base.uri, version=base.version)
    clean_away(base)
    lance.LanceDataset.commit(writer, peer_operation(operations["compaction"]), read_version=base.version)
    risen = sorted(lance.dataset(base.uri).to_table()["a"].to_pylist())
    assert risen == list(range(25))


@pytest.mark.parametrize("name", ["append", "delete", "compaction"])
def test_ours_refuses_the_gap_and_changes_nothing(gap, name):
    base, operations = gap
    clean_away(base)
    before = {info.path for info in base.store.list("")}
    with pytest.raises(RetryableCommitConflictError, match=r"version 3.*was removed") as caught:
        commit(base, operations[name])
    assert caught.value.version == 3
    assert caught.value.retryable
    assert {info.path for info in base.store.list("")} == before
    assert values(base.latest()) == EXPECTED


def test_planning_afresh_from_the_head_works(gap):
    base, _ = gap
    clean_away(base)
    head = base.latest()
    now = append(head, rows(100, 103)).dataset
    now = delete(now, {0: [5]}).dataset
    result, ids = reserve_fragments(now, 1)
    now = commit(result.dataset, rewrite_operation(result.dataset, [0, 1], new_ids=ids)).dataset
    expected = sorted({*EXPECTED, 100, 101, 102} - {5})
    assert values(now) == expected
    assert sorted(lance.dataset(base.uri).to_table()["a"].to_pylist()) == expected


def test_a_read_version_that_was_cleaned_away_alone_is_no_gap(gap):
    base, operations = gap
    base.store.delete(base.location.path)
    result = commit(base, operations["append"])
    assert values(result.dataset) == sorted([*EXPECTED, 100, 101, 102])


# Other ways in which a version since the read version may be no witness.


def damage_manifest(dataset: Dataset, version: int) -> None:
    path = locate(dataset.store, version).path
    data = dataset.store.read(path).to_pybytes()
    dataset.store.put(path, data[: len(data) // 2])


def change_manifest(dataset: Dataset, version: int, **changes) -> None:
    location = locate(dataset.store, version)
    manifest = read_manifest(dataset.store, location)
    dataset.store.put(location.path, encode_manifest(manifest.replace(**changes)))


def lose_transaction(dataset: Dataset, version: int) -> None:
    dataset.store.delete(dataset.read_transaction(version).path)
    change_manifest(dataset, version, transaction=None)


def never_record_transaction(dataset: Dataset, version: int) -> None:
    change_manifest(dataset, version, transaction=None, transaction_file="")


def unknown_operation(dataset: Dataset, version: int) -> None:
    message = transaction_pb2.Transaction.FromString(encode_transaction(dataset.read_transaction(version)))
    message.ClearField("delete")
    change_manifest(dataset, version, transaction=message.SerializeToString())


def garbage_transaction(dataset: Dataset, version: int) -> None:
    change_manifest(dataset, version, transaction=b"\xff\xff")


def another_number(dataset: Dataset, version: int) -> None:
    dataset.store.copy(locate(dataset.store, 4).path, locate(dataset.store, version).path)


@pytest.mark.parametrize(
    "spoil",
    [
        damage_manifest,
        lose_transaction,
        never_record_transaction,
        unknown_operation,
        garbage_transaction,
        another_number,
    ],
    ids=lambda function: function.__name__,
)
@pytest.mark.parametrize("name", ["append", "delete", "compaction"])
def test_a_version_that_does_not_say_what_it_did_is_a_conflict(gap, name, spoil):
    base, operations = gap
    spoil(base, 3)
    before = {info.path for info in base.store.list("")}
    with pytest.raises(RetryableCommitConflictError) as caught:
        commit(base, operations[name])
    assert caught.value.version == 3
    assert {info.path for info in base.store.list("")} == before


def test_many_versions_are_all_judged(tmp_path):
    dataset = create(str(tmp_path / "table"), rows(0, 20), rows_per_fragment=10)
    operation = delete_operation(dataset, {0: [1]})
    now = dataset
    for number in range(30):
        now = append(now, rows(100 + number, 101 + number)).dataset
    result = commit(dataset, operation)
    assert len(result.conflicts) == 30
    assert [int(line.split(":")[0].removeprefix("version ")) for line in result.conflicts] == [*range(2, 32)]
    dataset.store.delete(locate(dataset.store, 17).path)
    with pytest.raises(RetryableCommitConflictError, match="version 17"):
        commit(dataset, append_operation(dataset, rows(0, 1)))


def test_the_transaction_of_a_version_may_be_in_its_file_alone(gap):
    base, operations = gap
    change_manifest(base, 3, transaction=None)
    assert values(commit(base, operations["delete"]).dataset) == sorted(set(EXPECTED) - {5})
    path = base.read_transaction(3).path
    assert decode_transaction(base.store.read(path), path=path).operation.name == "Delete"
