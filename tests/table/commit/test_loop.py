"""The commit loop: what it writes, what it refuses, how it meets other writers and its own earlier runs."""

import json
import shutil
from dataclasses import dataclass, field
from datetime import timedelta

import lance
import pytest

from lance_ops.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    IncompatibleCommitConflictError,
    InvalidArgumentError,
    RetryableCommitConflictError,
    UnsupportedError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_ops.maintenance.metadata.actions import update_config
from lance_ops.storage import Store, open_store
from lance_ops.table.commit.committer import PutIfAbsentCommitter
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.listing import HINT_PATH, ManifestLocation, NamingScheme, locate, manifest_path
from lance_ops.table.manifest.model import WriterVersion
from lance_ops.table.transaction.operations import (
    ForeignOperation,
    MapUpdate,
    Overwrite,
    ReserveFragments,
    Restore,
    UpdateConfig,
)
from lance_ops.table.transaction.transaction import decode_transaction, encode_transaction, job_uuid_prefix
from tests.support.fake_s3 import FakeS3
from tests.support.faulty_store import FaultyStore
from tests.support.table_actions import commit
from tests.support.tables import (
    append,
    append_operation,
    compact,
    create,
    delete,
    delete_operation,
    overwrite,
    rows,
    values,
)


@pytest.fixture
def dataset(tmp_path) -> Dataset:
    """Fragments 0 and 1 with the rows 0 to 9 and 10 to 19."""
    return create(str(tmp_path / "table"), rows(0, 20), rows_per_fragment=10)


def transactions(dataset: Dataset) -> set[str]:
    return {info.path for info in dataset.store.list("_transactions")}


@dataclass
class Meanwhile:
    """A committer that lets others act before its first `times` commits."""

    act: object
    times: int = 1
    commits: list[int] = field(default_factory=list)

    def commit(self, store: Store, location: ManifestLocation, manifest: bytes) -> None:
        self.commits.append(location.version)
        if len(self.commits) <= self.times:
            self.act()
        PutIfAbsentCommitter().commit(store, location, manifest)


# What a commit leaves behind


def test_a_commit_writes_transaction_manifest_and_hint(dataset):
    result = append(dataset, rows(20, 25), properties={"who": "me"})
    assert result.version == 2
    assert result.attempts == 1
    assert result.conflicts == ()
    assert not result.already_committed
    assert result.dataset.version == 2
    assert values(result.dataset) == list(range(25))
    stored = dataset.store.read(result.transaction.path).to_pybytes()
    assert decode_transaction(stored, path="x") == result.transaction
    manifest = read_manifest(dataset.store, locate(dataset.store, 2))
    assert manifest.transaction == stored
    assert manifest == result.dataset.manifest
    assert json.loads(dataset.store.read(HINT_PATH).to_pybytes()) == {"version": 2}
    assert result.transaction.properties == {"who": "me"}


def test_a_rebased_transaction_is_stored_as_it_was_committed(dataset):
    operation = delete_operation(dataset, {0: [1]})
    delete(dataset, {0: [2]})
    result = commit(dataset, operation)
    assert result.transaction.operation != operation
    stored = dataset.store.read(result.transaction.path).to_pybytes()
    assert stored == encode_transaction(result.transaction)
    assert read_manifest(dataset.store, locate(dataset.store, 3)).transaction == stored


def test_a_uri_or_store_stands_for_the_newest_version(dataset):
    append(dataset, rows(20, 25))
    assert commit(dataset.uri, ReserveFragments(1)).transaction.read_version == 2
    assert commit(dataset.store, ReserveFragments(1)).transaction.read_version == 3


def test_a_commit_may_be_based_on_an_older_version(dataset):
    append(dataset, rows(20, 25))
    result = commit(dataset.uri, append_operation(dataset, rows(30, 32)), read_version=1)
    assert result.transaction.read_version == 1
    assert result.transaction.file_name.startswith("1-")
    assert len(result.conflicts) == 1
    assert values(result.dataset) == [*range(25), 30, 31]


def test_commits_that_keep_the_data_note_who_made_them(dataset):
    appended = append(dataset, rows(20, 25))
    configured = update_config(appended.dataset, {"k": "1"})
    assert configured.transaction.properties == {"lance_ops.data_transaction": appended.transaction.uuid}
    assert configured.dataset.data_version == appended.dataset.data_version
    packed = compact(configured.dataset, [0, 1])
    assert packed.dataset.data_version == appended.dataset.data_version
    # A commit that was worked out before the rows changed is noted for where it ends up.
    late = commit(dataset, UpdateConfig(config=MapUpdate({"l": "1"})))
    assert late.transaction.properties == configured.transaction.properties
    assert late.dataset.data_version == appended.dataset.data_version
    back = commit(packed.dataset, Restore(1))
    assert back.dataset.data_version == dataset.data_version
    assert delete(back.dataset, {0: [1]}).dataset.data_version != dataset.data_version


def test_the_naming_scheme_of_the_dataset_is_kept(tmp_path):
    uri = str(tmp_path / "v1")
    lance.write_dataset(rows(0, 3), uri, enable_v2_manifest_paths=False, data_storage_version="2.2")
    result = append(Dataset.open(uri), rows(3, 5))
    assert result.dataset.location.path == manifest_path(2, NamingScheme.V1)
    assert lance.dataset(uri).count_rows() == 5


# Creating


def test_creating_where_a_dataset_is_gives_an_error_and_leaves_no_transaction(dataset):
    before = transactions(dataset)
    with pytest.raises(DatasetExistsError):
        create(dataset.store, rows(0, 3))
    assert transactions(dataset) == before


def test_two_creators_make_one_dataset(tmp_path):
    store = open_store(str(tmp_path / "table"))
    racing = Meanwhile(lambda: create(store, rows(0, 3)))
    with pytest.raises(DatasetExistsError):
        create(store, rows(5, 9), committer=racing)
    assert racing.commits == [1]
    assert values(Dataset.open(store)) == [0, 1, 2]
    assert len(transactions(Dataset.open(store))) == 1


def test_an_operation_needs_a_dataset(tmp_path):
    with pytest.raises(DatasetNotFoundError):
        commit(str(tmp_path / "nothing"), ReserveFragments(1))


def test_an_overwrite_goes_on_top_of_what_is_there(dataset):
    result = overwrite(dataset, rows(50, 52))
    assert values(result.dataset) == [50, 51]
    assert [f.id for f in result.dataset.fragments] == [2]
    assert values(Dataset.open(dataset.uri, 1)) == list(range(20))
    assert lance.dataset(dataset.uri).to_table()["a"].to_pylist() == [50, 51]


# Races


def test_a_lost_race_is_run_again_on_the_new_head(dataset):
    racing = Meanwhile(lambda: append(dataset.latest(), rows(100, 103)), times=3)
    result = append(dataset, rows(20, 25), committer=racing)
    assert racing.commits == [2, 3, 4, 5]
    assert result.attempts == 4
    assert result.version == 5
    assert len(result.conflicts) == 3
    assert values(result.dataset) == sorted([*range(25), *[100, 101, 102] * 3])
    assert [f.id for f in result.dataset.fragments] == [0, 1, 2, 3, 4, 5]


def test_a_lost_race_against_a_conflict_ends_in_its_error(dataset):
    before = transactions(dataset)
    racing = Meanwhile(lambda: overwrite(dataset, rows(100, 103)))
    operation = append_operation(dataset, rows(20, 25))
    with pytest.raises(IncompatibleCommitConflictError) as caught:
        commit(dataset, operation, committer=racing)
    assert caught.value.version == 2
    assert caught.value.theirs.startswith("version 2: Overwrite with 3 rows in 1 fragment (transaction ")
    assert caught.value.ours.startswith("Append of 5 rows in 1 fragment (transaction ")
    assert caught.value.orphans == (f"data/{operation.fragments[0].files[0].path}",)
    assert len(transactions(dataset) - before) == 1


def test_attempts_are_bounded(dataset):
    racing = Meanwhile(lambda: append(dataset.latest(), rows(100, 101)), times=100)
    with pytest.raises(RetryableCommitConflictError, match="3 times in a row"):
        append(dataset, rows(20, 25), committer=racing, max_attempts=3)
    assert dataset.latest().version == 4
    assert len(transactions(dataset)) == 4


# What is refused before anything is written


def refused(dataset: Dataset, error: type[Exception], match: str, **options):
    before = {info.path for info in dataset.store.list("")}
    with pytest.raises(error, match=match):
        commit(dataset, options.pop("operation", ReserveFragments(1)), **options)
    assert {info.path for info in dataset.store.list("")} == before


def rewrite_manifest(dataset: Dataset, **changes) -> Dataset:
    """Change the newest manifest in place, as only a test may."""
    manifest = dataset.manifest.replace(**changes)
    dataset.store.put(dataset.location.path, encode_manifest(manifest))
    return Dataset.open(dataset.uri)


def test_unknown_writer_flags_are_refused_before_anything_is_written(dataset):
    refused(rewrite_manifest(dataset, writer_flags=1 << 20), UnsupportedFeatureError, "1048576")


@pytest.mark.parametrize(
    "writer",
    [None, WriterVersion("lance", "0.8.14"), WriterVersion("lance", "0.7.5")],
    ids=["unnamed", "0.8.14", "0.7.5"],
)
def test_versions_whose_numbers_may_be_wrong_are_not_written_on(dataset, writer):
    refused(rewrite_manifest(dataset, writer_version=writer), UnsupportedError, "may be wrong")


@pytest.mark.parametrize("writer", [WriterVersion("lance", "0.8.15"), WriterVersion("another", "0.1.0")])
def test_versions_of_other_writers_are_written_on(dataset, writer):
    assert commit(rewrite_manifest(dataset, writer_version=writer), ReserveFragments(1)).version == 2


def test_datasets_with_a_blob_dataset_are_not_written_on(dataset):
    refused(rewrite_manifest(dataset, blob_dataset_version=3), UnsupportedError, "blobs")


def test_unknown_writer_flags_of_the_head_are_refused(dataset):
    append(dataset, rows(20, 25))
    rewrite_manifest(dataset.latest(), writer_flags=1 << 20)
    refused(dataset, UnsupportedFeatureError, "1048576")


def test_operations_that_are_only_read_are_refused(dataset):
    overlay = ForeignOperation("DataOverlay")
    refused(dataset, InvalidArgumentError, "DataOverlay can be read", operation=overlay)


def test_operations_that_do_not_fit_are_refused(dataset):
    refused(dataset, InvalidArgumentError, "got 0", operation=ReserveFragments(0))


def test_stable_row_ids_cannot_be_switched_on_later(dataset):
    refused(dataset, InvalidArgumentError, "when the dataset is created", stable_row_ids=True)


def test_attempts_must_be_possible(dataset):
    refused(dataset, InvalidArgumentError, "attempt", max_attempts=0)


def test_a_read_version_that_is_gone_is_retryable(dataset):
    append(dataset, rows(20, 25))
    dataset.store.delete(dataset.location.path)
    with pytest.raises(RetryableCommitConflictError, match="read version 1 was removed"):
        commit(dataset.uri, ReserveFragments(1), read_version=1)


def test_detached_versions_have_no_successors(dataset):
    detached = lance.LanceDataset.commit(
        dataset.uri,
        lance.LanceOperation.UpdateConfig(lance.LanceOperation.UpdateMap({"k": "1"})),
        read_version=1,
        detached=True,
    )
    refused(Dataset.open(dataset.uri, detached.version), InvalidArgumentError, "detached")


def test_a_dataset_that_was_made_anew_is_noticed(dataset):
    append(dataset, rows(20, 25))
    old = Dataset.open(dataset.uri)
    shutil.rmtree(dataset.uri)
    new = create(dataset.store, rows(70, 75))
    with pytest.raises(RetryableCommitConflictError, match="newer than the head"):
        commit(old, ReserveFragments(1))
    append(new, rows(75, 80))
    with pytest.raises(RetryableCommitConflictError, match="replaced"):
        commit(old, ReserveFragments(1))
    append(new.latest(), rows(80, 85))
    with pytest.raises(RetryableCommitConflictError, match="replaced"):
        commit(old, ReserveFragments(1))


def test_a_restore_needs_its_version(dataset):
    refused(dataset, VersionNotFoundError, "no version 7", operation=Restore(7))


# What we do not know survives


def test_unknown_fields_and_indices_survive_commits(dataset):
    unknown = b"\xf8\x3f\x2a"
    changed = rewrite_manifest(
        dataset,
        unknown=unknown,
        fragments=tuple(f.replace(unknown=unknown) for f in dataset.fragments),
        table_metadata={"t": "1"},
    )
    for result in (
        append(changed, rows(20, 25)),
        update_config(dataset.uri, {"k": "1"}),
        delete(Dataset.open(dataset.uri), {1: [1]}),
    ):
        manifest = read_manifest(dataset.store, result.dataset.location)
        assert manifest.unknown == unknown
        assert [f.unknown for f in manifest.fragments[:2]] == [unknown, unknown]
        assert manifest.table_metadata == {"t": "1"}


# Exactly once


def test_a_job_commits_once(dataset):
    first = append(dataset, rows(20, 25), job_key="load 1")
    other = append(first.dataset, rows(30, 32), job_key="load 2")
    again = append(other.dataset, rows(20, 25), job_key="load 1")
    assert again.already_committed
    assert again.version == first.version
    assert again.transaction == first.transaction
    assert again.dataset.version == first.version
    assert dataset.latest().version == 3
    assert values(dataset.latest()) == [*range(25), 30, 31]
    assert find_job(dataset, "load 1").version == 2
    assert find_job(dataset, "load 2").version == 3
    assert find_job(dataset, "load 3") is None


def test_a_job_that_creates_the_dataset_does_so_once(tmp_path):
    store = open_store(str(tmp_path / "table"))
    fragments = append_operation(create(open_store("memory://donor"), rows(0, 3)), rows(0, 3)).fragments
    schema = Dataset.open("memory://donor").lance_schema
    first = commit(store, Overwrite(fragments, schema), job_key="first load")
    again = commit(store, Overwrite(fragments, schema), job_key="first load")
    assert (again.version, again.already_committed) == (1, True)
    assert again.transaction == first.transaction
    with pytest.raises(DatasetExistsError):
        commit(store, Overwrite(fragments, schema), job_key="another load")


def test_two_runs_of_a_job_at_once_commit_once(dataset):
    winner = []
    racing = Meanwhile(lambda: winner.append(append(dataset, rows(20, 25), job_key="load")))
    result = append(dataset, rows(20, 25), job_key="load", committer=racing)
    assert result.already_committed
    assert result.version == winner[0].version == 2
    assert values(dataset.latest()) == list(range(25))
    assert transactions(dataset) == {dataset.read_transaction().path, winner[0].transaction.path}


def test_the_files_of_a_run_that_came_second_are_named(dataset):
    append(dataset, rows(20, 25), job_key="load")
    operation = append_operation(dataset, rows(20, 25))
    again = commit(dataset, operation, job_key="load")
    assert again.already_committed
    assert again.orphans == (f"data/{operation.fragments[0].files[0].path}",)


@pytest.mark.parametrize("job_key", [None, "load"])
def test_an_operation_that_is_committed_again_is_recognised_by_its_files(dataset, job_key):
    """As after an error that left the outcome open."""
    operation = append_operation(dataset, rows(20, 25))
    first = commit(dataset, operation, job_key=job_key)
    append(first.dataset, rows(30, 31))
    again = commit(dataset, operation, job_key=job_key)
    assert again.already_committed
    assert again.version == first.version
    assert again.orphans == ()
    assert values(dataset.latest()) == [*range(25), 30]
    if job_key is None:
        with pytest.raises(InvalidArgumentError, match="part of the dataset"):
            commit(dataset.latest(), operation)
    else:
        assert commit(dataset.latest(), operation, job_key=job_key).already_committed


def test_a_run_that_died_before_its_commit_does_not_count(dataset):
    with pytest.raises(Died):
        append(dataset, rows(20, 25), job_key="load", committer=Dying())
    left = {path for path in transactions(dataset) if job_uuid_prefix("load") in path}
    assert len(left) == 1
    assert find_job(dataset, "load") is None
    result = append(dataset, rows(20, 25), job_key="load")
    assert not result.already_committed
    assert find_job(dataset, "load").version == 2


class Died(BaseException):
    """The process ends between transaction file and manifest."""


class Dying:
    def commit(self, store, location, manifest):
        raise Died


def test_a_job_is_found_without_transaction_files(dataset):
    append(dataset, rows(20, 25), job_key="load")
    append(dataset, rows(30, 31))
    for path in transactions(dataset):
        dataset.store.delete(path)
    assert find_job(dataset, "load").version == 2
    assert find_job(dataset, "another") is None


def test_a_job_is_found_by_one_read_and_one_of_the_record_however_many_versions_there_are(tmp_path):
    store = FaultyStore(open_store(str(tmp_path / "table")))
    dataset = create(store, rows(0, 3))
    for number in range(20):
        dataset = update_config(dataset, {"k": str(number)}).dataset
    append(dataset, rows(3, 5), job_key="load")
    # The versions are listed and the newest manifest is read; so are the notes and segments that processes of
    # earlier releases may still write.
    store.reset()
    assert find_job(dataset, "no such job") is None
    assert [call.name for call in store.calls] == ["list", "read", "list", "list"]
    store.reset()
    assert find_job(dataset, "load").version == 22
    assert [call.name for call in store.calls] == ["list", "read"]


def test_a_transaction_too_large_for_the_manifest_is_in_its_file(dataset, monkeypatch):
    monkeypatch.setattr("lance_ops.table.manifest.file.write.MAX_INLINE_TRANSACTION", 10)
    appended = append(dataset, rows(20, 25))
    monkeypatch.undo()
    manifest = read_manifest(dataset.store, appended.dataset.location)
    assert manifest.transaction is None
    assert Dataset.open(dataset.uri).read_transaction() == appended.transaction
    assert append(dataset, rows(30, 31)).conflicts == (f"version 2: {appended.transaction.describe()}",)
    assert lance.dataset(dataset.uri).read_transaction(2).uuid == appended.transaction.uuid


def test_commits_to_an_object_store():
    with FakeS3() as s3:
        store = open_store("s3://bucket/table", s3.options)
        dataset = create(store, rows(0, 20), rows_per_fragment=10)
        operation = delete_operation(dataset, {0: [1]})
        delete(dataset, {0: [2]})
        result = commit(dataset, operation, job_key="delete 1")
        assert values(result.dataset) == sorted(set(range(20)) - {1, 2})
        with pytest.raises(DatasetExistsError):
            create(store, rows(0, 3))


# The peer


@pytest.mark.peer
def test_the_peer_works_on_a_dataset_of_ours(dataset):
    update_config(dataset, {"k": "1"})
    peer = lance.dataset(dataset.uri)
    peer.delete("a = 3")
    peer = lance.write_dataset(rows(20, 25), dataset.uri, mode="append")
    peer.update({"b": "'changed'"}, where="a = 4")
    peer.create_scalar_index("a", "BTREE")
    peer.optimize.compact_files()
    peer.cleanup_old_versions(older_than=timedelta(0))
    peer = lance.dataset(dataset.uri)
    peer.validate()
    ours = Dataset.open(dataset.uri)
    assert ours.version == peer.version
    assert values(ours) == sorted(set(range(25)) - {3})
    again = append(ours, rows(30, 32))
    peer = lance.dataset(dataset.uri)
    peer.validate()
    assert peer.version == again.version
    assert sorted(peer.to_table()["a"].to_pylist()) == sorted({*range(25), 30, 31} - {3})
    assert peer.config() == {"k": "1"}


@pytest.mark.peer
def test_the_peer_reads_every_kind_of_commit_of_ours(dataset):
    def check(result, expected, operation):
        peer = lance.dataset(dataset.uri)
        peer.validate()
        assert peer.version == result.version
        assert sorted(peer.to_table()["a"].to_pylist()) == expected
        assert peer.count_rows() == len(expected)
        assert type(peer.read_transaction(result.version).operation).__name__ == operation
        return result.dataset

    now = check(append(dataset, rows(20, 25)), list(range(25)), "Append")
    now = check(delete(now, {0: [0, 1], 2: range(5)}), list(range(2, 20)), "Delete")
    now = check(compact(now, [0, 1]), list(range(2, 20)), "Rewrite")
    now = check(commit(now, Restore(2)), list(range(25)), "Restore")
    now = check(update_config(now, {"k": "1"}), list(range(25)), "UpdateConfig")
    check(overwrite(now, rows(7, 9)), [7, 8], "Overwrite")


@pytest.mark.peer
def test_commits_on_a_branch_stay_on_the_branch(dataset):
    peer = lance.dataset(dataset.uri)
    peer.create_branch("dev")
    branch = Dataset.open(dataset.uri).checkout_version(("dev", dataset.version))
    result = append(branch, rows(100, 103))
    assert result.dataset.branch == "dev"
    assert lance.dataset(dataset.uri).count_rows() == 20
    assert lance.dataset(dataset.uri).checkout_version(("dev", None)).count_rows() == 23


@pytest.mark.peer
def test_stable_row_ids_go_on_between_us_and_the_peer(tmp_path):
    dataset = create(str(tmp_path / "table"), rows(0, 3), stable_row_ids=True)
    append(dataset, rows(3, 5))
    lance.write_dataset(rows(5, 8), dataset.uri, mode="append")
    append(dataset.latest(), rows(8, 10))
    peer = lance.dataset(dataset.uri)
    peer.validate()
    assert peer.to_table(with_row_id=True)["_rowid"].to_pylist() == list(range(10))
    now = dataset.latest()
    assert now.to_table(with_row_id=True)["_rowid"].to_pylist() == list(range(10))
    assert now.manifest.next_row_id == 10
    columns = ["a", "_row_created_at_version", "_row_last_updated_at_version"]
    assert peer.to_table(columns=columns)["_row_created_at_version"].to_pylist() == [
        1, 1, 1, 2, 2, 3, 3, 3, 4, 4
    ]  # fmt: skip
    assert now.to_table(columns) == peer.to_table(columns=columns)


def test_the_value_of_an_update_is_what_was_asked_for(dataset):
    result = commit(dataset, UpdateConfig())
    assert result.dataset.config == {}
    assert result.version == 2
