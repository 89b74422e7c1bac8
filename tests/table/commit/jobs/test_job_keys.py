"""A job key proves that the effect of the job is in the lineage of the head, version or no version."""

import contextlib
import shutil
from datetime import timedelta
from itertools import count
from unittest import mock

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import JobUnprovenError, RetryableCommitConflictError
from lance_ops.storage import open_store
from lance_ops.storage.local.store import LocalStore
from lance_ops.table.commit.jobs import job_record
from lance_ops.table.commit.jobs.earlier_record import is_of_job
from lance_ops.table.commit.jobs.job_keys import find_job, find_transaction
from lance_ops.table.commit.jobs.job_record import DONE
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import JOBS_ENTRY, MapUpdate, UpdateConfig
from lance_ops.table.transaction.transaction import job_uuid_prefix
from tests.support.faulty_store import FaultyStore, InjectedCrash, crash_moments
from tests.support.table_actions import commit

ZERO = timedelta(0)


def rows(key: str) -> pa.Table:
    return pa.table({"k": [key]})


def append(uri, key: str, **options):
    return lo.append(uri, rows(key), job_key=key, **options)


def values(uri) -> list[str]:
    return lo.dataset(uri).to_table()["k"].to_pylist()


def clean_by_us(uri) -> None:
    lo.cleanup(uri, retain_versions=1)


def clean_by_the_peer(uri) -> None:
    lance.dataset(uri).cleanup_old_versions(older_than=ZERO, error_if_tagged_old_versions=False)


CLEANERS = pytest.mark.parametrize("clean", [clean_by_us, clean_by_the_peer])


@pytest.fixture
def uri(tmp_path) -> str:
    return str(tmp_path / "t.lance")


@CLEANERS
def test_a_key_outlives_its_version(uri, clean):
    made = {key: append(uri, key) for key in "ABC"}
    clean(uri)
    assert [version.version for version in lo.dataset(uri).versions()] == [3]
    for key in "ABC":
        again = append(uri, key)
        assert again.already_committed
        assert again.version == made[key].version
    assert values(uri) == ["A", "B", "C"]
    assert lance.dataset(uri).count_rows() == 3


@CLEANERS
def test_the_answer_names_version_and_transaction(uri, clean):
    append(uri, "A")
    uuid = lo.dataset(uri).read_transaction().uuid
    append(uri, "B")
    dataset = lo.dataset(uri)
    found = find_job(dataset, "A")
    assert (found.version, found.transaction_uuid, found.removed) == (1, uuid, False)
    assert find_transaction(dataset, uuid) == found
    clean(uri)
    found = find_job(dataset, "A")
    assert (found.version, found.transaction_uuid, found.removed) == (1, uuid, True)
    assert find_transaction(dataset, uuid) == found
    assert find_job(dataset, "C") is None
    assert find_transaction(dataset, "01234567-89ab-8def-8000-000000000000") is None


def test_a_transaction_without_a_key_is_found_while_its_version_is_there(uri):
    lo.append(uri, rows("A"))
    uuid = lo.dataset(uri).read_transaction().uuid
    lo.append(uri, rows("B"))
    assert find_transaction(lo.dataset(uri), uuid).version == 1
    lo.restore(uri, 1)
    assert find_transaction(lo.dataset(uri), uuid).version == 1
    lost = lo.dataset(uri, 2).read_transaction().uuid
    assert find_transaction(lo.dataset(uri), lost) is None


@pytest.mark.parametrize("restored_by", ["us", "the peer"])
@pytest.mark.parametrize("then", ["nothing", "append", "cleanup by us", "append and cleanup by us"])
def test_a_restore_undoes_what_came_after_the_version(uri, restored_by, then):
    for key in "ABC":
        append(uri, key)
    if restored_by == "us":
        lo.restore(uri, 2)
    else:
        lance.dataset(uri, version=2).restore()
    if "append" in then:
        lo.append(uri, rows("x"))
    if "cleanup" in then:
        clean_by_us(uri)
    dataset = lo.dataset(uri)
    assert find_job(dataset, "A").version == 1
    assert find_job(dataset, "B").version == 2
    assert find_job(dataset, "C") is None
    again = append(uri, "C")
    assert not again.already_committed
    assert append(uri, "C").version == again.version
    assert sorted(values(uri)) == sorted("ABC" + ("x" if "append" in then else ""))


@CLEANERS
def test_restoring_a_version_that_has_the_rows_brings_the_key_back(uri, clean):
    for key in "ABC":
        append(uri, key)
    lo.create_tag(uri, "all", 3)
    lo.restore(uri, 1)
    assert find_job(lo.dataset(uri), "C") is None
    lo.restore(uri, 3)
    clean(uri)
    assert find_job(lo.dataset(uri), "C").version == 3
    assert append(uri, "B").already_committed


@CLEANERS
def test_deleting_or_replacing_the_rows_leaves_the_job_done(uri, clean):
    append(uri, "A")
    append(uri, "B")
    lo.delete(uri, "k = 'A'", job_key="delete A")
    assert append(uri, "A").already_committed
    lo.write_dataset(rows("x"), uri, mode="overwrite", job_key="all")
    clean(uri)
    for key in "AB":
        assert append(uri, key).already_committed
    assert lo.write_dataset(rows("y"), uri, mode="overwrite", job_key="all").already_committed
    assert values(uri) == ["x"]


def test_a_restore_and_a_cleanup_by_pylance_count(uri):
    append(uri, "A")
    append(uri, "B")
    lance.dataset(uri, version=1).restore()
    lance.write_dataset(rows("x"), uri, mode="append")
    clean_by_the_peer(uri)
    assert append(uri, "A").already_committed
    assert not append(uri, "B").already_committed
    assert sorted(values(uri)) == ["A", "B", "x"]


@CLEANERS
def test_jobs_are_found_after_every_operation_of_the_peer(uri, tmp_path, clean):
    append(uri, "A")
    peer = lance.dataset(uri)
    peer.update_config({"x": "1"})
    peer.delete_config_keys(["x"])
    peer.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(rows("B"))
    peer.update({"k": "'C'"}, where="k = 'B'")
    peer.add_columns({"n": "1"})
    peer.alter_columns({"path": "n", "name": "m"})
    peer.drop_columns(["m"])
    peer.create_scalar_index("k", "BTREE")
    peer.optimize.optimize_indices()
    peer.delete("k = 'A'")
    peer.optimize.compact_files()
    peer.drop_index("k_idx")
    peer.create_branch("b")
    lance.write_dataset(rows("x"), uri, mode="overwrite")
    clean(uri)
    assert append(uri, "A").already_committed
    assert lo.fsck(uri).ok


def test_a_config_that_is_replaced_as_a_whole(uri):
    append(uri, "A")
    append(uri, "B")
    commit(uri, UpdateConfig(MapUpdate({"x": "1"}, replace=True)))
    assert append(uri, "A").already_committed
    lo.delete(uri, "k = 'A'")
    lo.compact(uri)
    # Without the record, the versions before tell.
    lance.dataset(uri).update_config({"x": "2"}, replace=True)
    assert set(lo.dataset(uri).config) == {"x"}
    for key in "AB":
        assert append(uri, key).already_committed
    append(uri, "C")
    clean_by_the_peer(uri)
    for key in "ABC":
        assert append(uri, key).already_committed


def test_a_cleanup_takes_over_what_versions_before_a_replaced_config_tell(uri):
    append(uri, "A")
    append(uri, "B")
    # No file and no transaction that is left tells of a job.
    lo.delete(uri, "k = 'A'")
    lo.append(uri, rows("x"))
    lo.compact(uri)
    clean_by_us(uri)
    lance.dataset(uri).update_config({"x": "2"}, replace=True)
    clean_by_us(uri)
    for key in "AB":
        assert append(uri, key).already_committed


def test_a_dataset_made_anew_knows_no_key_of_the_old_one(uri):
    for key in "ABC":
        append(uri, key)
    clean_by_us(uri)
    shutil.rmtree(uri)
    assert not append(uri, "B").already_committed
    assert values(uri) == ["B"]


@pytest.mark.parametrize("creator", ["us, with a key", "us", "the peer"])
def test_a_record_that_was_left_behind_does_not_count(uri, creator):
    for key in "ABC":
        append(uri, key)
    clean_by_us(uri)
    append(uri, "D")
    store = open_store(uri)
    store.delete_many([info.path for info in store.list("") if not info.path.startswith("_lance_ops/")])
    if creator == "the peer":
        lance.write_dataset(rows("0"), uri)
    else:
        lo.write_dataset(rows("0"), uri, job_key="0" if "key" in creator else None)
    for number in range(5):
        lo.append(uri, rows(str(number)))
    for key in "ABCD":
        assert not append(uri, key).already_committed
    clean_by_us(uri)
    for key in "ABCD":
        assert append(uri, key).already_committed
    assert sorted(values(uri)) == sorted("001234ABCD")


def test_a_record_that_was_left_behind_does_not_count_when_versions_of_the_new_dataset_are_gone(uri):
    for key in "ABC":
        append(uri, key)
    store = open_store(uri)
    store.delete_many([info.path for info in store.list("") if not info.path.startswith("_lance_ops/")])
    for number in range(7):
        lo.append(uri, rows(str(number)))
    clean_by_us(uri)
    for key in "ABC":
        assert not append(uri, key).already_committed
    clean_by_us(uri)
    for key in "ABC":
        assert append(uri, key).already_committed


@CLEANERS
def test_the_record_goes_with_a_copy_of_the_folder(uri, tmp_path, clean):
    for key in "ABC":
        append(uri, key)
    clean(uri)
    shutil.copytree(uri, tmp_path / "copy.lance")
    assert append(tmp_path / "copy.lance", "A").already_committed


# The mark of a job is in another place in the UUIDs of some keys.
KEYS = pytest.mark.parametrize(
    "key",
    ["B", next(str(n) for n in count() if job_uuid_prefix(str(n))[9] == "8" != job_uuid_prefix(str(n))[14])],
)


def copy_without_record(uri: str, to, *parts: str) -> str:
    """A copy of the folders of the format only, or fewer, whose config has lost the record."""
    shutil.copytree(uri, to)
    lance.dataset(str(to)).delete_config_keys([JOBS_ENTRY])
    for part in ("_lance_ops", *parts):
        shutil.rmtree(to / part)
    return str(to)


@CLEANERS
@KEYS
@pytest.mark.parametrize("parts", [(), ("_transactions",)], ids=["all else", "no transactions"])
@pytest.mark.parametrize("restored", [False, True], ids=["", "restored"])
def test_a_copy_without_the_record_knows_the_jobs_whose_files_it_has(
    uri, tmp_path, clean, key, parts, restored
):
    for name in ("A", key, "C"):
        append(uri, name)
    if restored:
        lo.restore(uri, 2)
    copy = copy_without_record(uri, tmp_path / "copy.lance", *parts)
    clean(copy)
    expected = values(copy)
    for name in ("A", key):
        again = append(copy, name)
        assert again.already_committed
        assert again.version <= lo.dataset(copy).version
    assert values(copy) == expected
    # What was undone, and what is new, is no job done.
    for name in ("C", "D") if restored else ("D",):
        assert not append(copy, name).already_committed
    assert values(copy) == [*expected, *(("C", "D") if restored else ("D",))]
    for name in ("A", key, "C", "D"):
        assert append(copy, name).already_committed


@CLEANERS
@pytest.mark.parametrize("restored", [False, True], ids=["", "restored"])
def test_what_a_copy_learned_of_jobs_outlives_their_files(uri, tmp_path, clean, restored):
    for key in "ABC":
        append(uri, key)
    if restored:
        lo.restore(uri, 2)
    copy = copy_without_record(uri, tmp_path / "copy.lance")
    clean_by_the_peer(copy)
    expected = values(copy)
    assert append(copy, "A").already_committed
    lo.compact(copy)
    clean(copy)
    for key in "AB":
        with contextlib.suppress(JobUnprovenError):
            assert append(copy, key).already_committed
    assert not append(copy, "D").already_committed
    assert values(copy) == [*expected, "D"]


def test_our_cleanup_of_a_copy_without_the_record_begins_one(uri, tmp_path):
    for key in "ABC":
        append(uri, key)
    lo.compact(uri)
    copy = copy_without_record(uri, tmp_path / "copy.lance", "_transactions")
    clean_by_us(copy)
    for key in "ABC":
        assert append(copy, key).already_committed


def test_a_replacement_and_an_index_build_are_told_by_their_files(uri, tmp_path):
    lo.write_dataset(rows("x"), uri)
    lo.replace_where(uri, rows("y"), "k = 'y'", job_key="replace")
    lo.create_index(uri, "k", job_key="index")
    copy = copy_without_record(uri, tmp_path / "copy.lance", "_transactions")
    lo.append(copy, rows("z"))
    clean_by_the_peer(copy)
    assert lo.replace_where(copy, rows("y"), "k = 'y'", job_key="replace").already_committed
    assert lo.create_index(copy, "k", job_key="index", replace=True).already_committed


@pytest.mark.parametrize("by_us", [True, False], ids=["by us", "by the peer"])
def test_a_clone_and_a_branch_know_the_jobs_of_the_version_that_they_were_made_of(uri, tmp_path, by_us):
    append(uri, "A")
    append(uri, "B")
    clone = str(tmp_path / "clone.lance")
    if by_us:
        lo.shallow_clone(uri, clone, 1)
        branch = lo.create_branch(uri, "b", 1)
    else:
        lance.dataset(uri).shallow_clone(clone, 1)
        lance.dataset(uri).create_branch("b", 1)
        branch = lo.dataset(uri, ("b", 1))
    for target in (clone, branch):
        assert append(target, "A").already_committed
        assert not append(target, "B").already_committed
    assert append(uri, "B").version == 2


@pytest.mark.parametrize("by_us", [True, False], ids=["by us", "by the peer"])
def test_a_clone_and_a_branch_know_jobs_that_the_record_has_filed(uri, tmp_path, monkeypatch, by_us):
    monkeypatch.setattr(job_record, "RECENT", 2)
    for key in "ABC":
        append(uri, key)
    clone = str(tmp_path / "clone.lance")
    if by_us:
        lo.shallow_clone(uri, clone)
        lo.create_branch(uri, "b")
    else:
        lance.dataset(uri).shallow_clone(clone, 3)
        lance.dataset(uri).create_branch("b", 3)
    for target in (clone, lo.dataset(uri, ("b", None))):
        for key in "ABC":
            assert append(target, key).already_committed
        for key in "DEF":
            assert not append(target, key).already_committed
        # By now it has a file of its own.
        assert open_store(clone if target == clone else f"{uri}/tree/b").list_names(DONE)
        for key in "ABCDEF":
            assert append(target, key).already_committed


@KEYS
def test_keys_without_a_record_are_found_by_their_transactions(uri, key):
    append(uri, key)
    lo.append(uri, rows("x"))
    shutil.rmtree(f"{uri}/_lance_ops")
    lo.compact(uri)
    lance.dataset(uri).delete_config_keys([JOBS_ENTRY])
    assert append(uri, key).already_committed


@CLEANERS
def test_a_late_attempt_finds_the_job_done_or_refuses(uri, clean):
    """It was planned, then slept, while another attempt finished and a cleanup came."""
    append(uri, "A")

    def meanwhile(store):
        append(uri, "B")
        lo.append(uri, rows("x"))
        clean(uri)

    late = _Sleeping(meanwhile)
    with mock.patch.object(LocalStore, "put", late.put):
        result = append(uri, "B")
    assert result.already_committed
    assert sorted(values(uri)) == ["A", "B", "x"]
    late = _Sleeping(lambda store: (lo.append(uri, rows("y")), clean(uri)))
    with mock.patch.object(LocalStore, "put", late.put):
        lo.write_dataset(rows("new"), uri, mode="overwrite", job_key="over", max_replans=3)
    assert values(uri) == ["new"]


@CLEANERS
def test_a_late_overwrite_does_not_throw_away_what_came_after_its_own_success(uri, clean):
    append(uri, "A")

    def meanwhile(store):
        lo.write_dataset(rows("new"), uri, mode="overwrite", job_key="over")
        append(uri, "B")
        clean(uri)

    late = _Sleeping(meanwhile)
    with mock.patch.object(LocalStore, "put", late.put):
        result = lo.write_dataset(rows("new"), uri, mode="overwrite", job_key="over")
    assert result.already_committed
    assert values(uri) == ["new", "B"]


class _Sleeping:
    """A process that sleeps before the put of its transaction file, while others go on."""

    original = LocalStore.put

    def __init__(self, meanwhile):
        self.meanwhile = [meanwhile]

    @property
    def put(self):
        def put(store, path, data, **options):
            if path.endswith(".txn") and self.meanwhile:
                self.meanwhile.pop()(store)
            return type(self).original(store, path, data, **options)

        return put


def test_a_restore_between_the_attempts_makes_the_late_one_no_success(uri):
    append(uri, "A")

    def meanwhile(store):
        append(uri, "B")
        lo.restore(uri, 1)

    with mock.patch.object(LocalStore, "put", _Sleeping(meanwhile).put):
        with pytest.raises(Exception, match="Restore") as caught:
            append(uri, "B")
        assert not isinstance(caught.value, RetryableCommitConflictError)
    assert not append(uri, "B").already_committed
    assert values(uri) == ["A", "B"]


def test_a_dataset_without_job_keys_has_no_record(uri):
    for key in "ABC":
        lo.append(uri, rows(key))
    clean_by_us(uri)
    assert list(open_store(uri).list("_lance_ops")) == []


def test_a_cleanup_that_dies_anywhere_loses_no_key(tmp_path):
    start = str(tmp_path / "start.lance")
    for key in "ABCD":
        append(start, key)
    lo.restore(start, 3)
    lo.append(start, rows("x"))

    def died(number=None, when="before"):
        uri = str(tmp_path / f"{when}-{number}.lance")
        shutil.copytree(start, uri)
        store = FaultyStore(open_store(uri), number, when=when)
        with contextlib.suppress(InjectedCrash):
            lo.cleanup(Dataset.open(store), retain_versions=1)
        for _ in range(2):
            dataset = lo.dataset(uri)
            assert [find_job(dataset, key) is not None for key in "ABCD"] == [True, True, True, False]
            clean_by_us(uri)
        assert [info.version for info in lo.dataset(uri).versions()] == [6]
        shutil.rmtree(uri)
        return store

    for moment in crash_moments(range(1, died().counted + 1)):
        assert died(*moment).fired


@pytest.mark.parametrize("clean", ["us", "the peer"])
def test_a_keyed_append_that_dies_anywhere_is_done_once_whoever_cleans_up_then(tmp_path, clean):
    start = str(tmp_path / "start.lance")
    append(start, "A")
    append(start, "B")

    def died(number=None, when="before"):
        uri = str(tmp_path / f"{when}-{number}.lance")
        shutil.copytree(start, uri)
        store = FaultyStore(open_store(uri), number, when=when)
        with contextlib.suppress(InjectedCrash):
            lo.append(Dataset.open(store), rows("C"), job_key="C")
        lo.append(uri, rows("x"))
        (clean_by_us if clean == "us" else clean_by_the_peer)(uri)
        append(uri, "C")
        assert append(uri, "C").already_committed
        assert sorted(values(uri)) == ["A", "B", "C", "x"]
        shutil.rmtree(uri)
        return store

    for moment in crash_moments(range(1, died().counted + 1)):
        assert died(*moment).fired


def test_a_name_that_only_looks_like_one_of_a_job_is_none():
    """Every sixteenth name of pylance has the digit at the same place."""
    assert is_of_job("27c35e6e-9373-877f-99f0-5c69cfb8ec47.lance")
    assert not is_of_job("27c35e6e-9373-477f-99f0-5c69cfb8ec47.lance")
    assert not is_of_job("01100110100011814c8f2b4e7a9d0c1b2a3f.lance")
