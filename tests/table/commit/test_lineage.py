"""A version put where cleanup removed another lies below the newest, where nobody would ever see it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from lance_ops.errors import (
    CommitOutcomeUnknownError,
    DatasetExistsError,
    RetryableCommitConflictError,
    StorageError,
)
from lance_ops.maintenance.metadata.actions import restore, update_config
from lance_ops.maintenance.update.operation import update
from lance_ops.storage import open_store
from lance_ops.table.commit import loop
from lance_ops.table.commit.committer import PutIfAbsentCommitter
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import locate
from lance_ops.table.transaction.operations import (
    Delete,
    MapUpdate,
    Operation,
    Project,
    ReserveFragments,
    Restore,
    Update,
    UpdateConfig,
)
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.table_actions import commit, reserve_fragments
from tests.support.tables import (
    append,
    append_operation,
    compact,
    create,
    delete,
    delete_operation,
    overwrite,
    rewrite_operation,
    rows,
    values,
)

VERSION = 3
"""The version that both writers are about to make."""


@dataclass
class Late:
    """Stores the manifest after others have done something, or does what others do after it stored."""

    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None

    def commit(self, store, location, manifest):
        self.before()
        PutIfAbsentCommitter().commit(store, location, manifest)
        self.after()


@pytest.fixture
def base():
    """Three fragments; room for a rewrite."""
    store = open_store("memory://succession/table")
    store.delete_many([info.path for info in store.list("")])
    first = create(store, rows(0, 30), rows_per_fragment=10)
    return reserve_fragments(first, 1)[0].dataset


def drop_b(base: Dataset) -> Project:
    kept = base.lance_schema.field("a").id
    return Project(base.lance_schema.project_ids({kept}), preserves_nullability=True)


def replace_by_nothing(base: Dataset) -> Update:
    return Update((1,), delete_operation(base, {0: [3]}).updated_fragments, ())


OURS: dict[str, Callable[[Dataset], Operation]] = {
    "append": lambda base: append_operation(base, rows(100, 103)),
    "delete": lambda base: delete_operation(base, {0: [3]}),
    "delete of whole fragments": lambda base: Delete((), (1,), "a >= 10 and a < 20"),
    "replacement by no rows": lambda base: replace_by_nothing(base),
    "rewrite": lambda base: rewrite_operation(base, [0, 1], new_ids=[3]),
    "config": lambda base: UpdateConfig(config=MapUpdate({"team": "blue"})),
    "metadata": lambda base: UpdateConfig(schema_metadata=MapUpdate({"team": "blue"})),
    "reserve": lambda base: ReserveFragments(2),
    "restore": lambda base: Restore(1),
    "project": drop_b,
}

OPERATIONS = pytest.mark.parametrize("name", list(OURS))


def clean_away(dataset: Dataset, *versions: int) -> None:
    for version in versions:
        dataset.store.delete(locate(dataset.store, version).path)


def head(base: Dataset) -> Dataset:
    return base.latest()


PASSING: dict[str, Callable[[Dataset], object]] = {
    "append": lambda base: append(head(base), rows(200, 201)),
    "delete": lambda base: delete(head(base), {2: [1]}),
    "rewrite": lambda base: compact(head(base), [2]),
    "config": lambda base: update_config(head(base), {"other": "key"}),
}


@OPERATIONS
@pytest.mark.parametrize("last", list(PASSING))
def test_a_commit_below_the_head_is_a_conflict_and_leaves_nothing(base, name, last):
    if (name, last) in {("restore", "config"), ("reserve", "config")}:
        base = update_config(base, {"team": "red"}).dataset
    operation = OURS[name](base)
    version = base.version + 1

    def others() -> None:
        # The first of these takes the version, the others make it one that a cleanup may remove.
        overtaken = append(base, rows(300, 302)).dataset
        PASSING[last](overtaken)
        clean_away(base, base.version, version)

    with pytest.raises(RetryableCommitConflictError, match="cleaned up"):
        commit(base, operation, committer=Late(before=others))
    versions = [info.version for info in Dataset.open(base.store).versions()]
    assert version not in versions
    assert 300 in values(Dataset.open(base.store))
    assert not set(range(100, 103)) & set(values(Dataset.open(base.store)))


@OPERATIONS
@pytest.mark.parametrize("next_", list(PASSING))
def test_a_commit_that_others_built_on_stands(base, name, next_):
    operation = OURS[name](base)
    result = commit(base, operation, committer=Late(after=lambda: PASSING[next_](base)))
    assert (result.version, result.already_committed) == (base.version + 1, False)
    assert Dataset.open(base.store).version > result.version


@pytest.mark.parametrize(
    "undo",
    [
        lambda base: delete(head(base), {3: [0, 1, 2]}),
        lambda base: compact(head(base), [0, 1, 2, 3]),
        lambda base: overwrite(head(base), rows(500, 501)),
        lambda base: restore(head(base), 1),
    ],
    ids=["delete", "compact", "overwrite", "restore"],
)
def test_a_commit_whose_rows_others_took_away_again_is_never_called_a_conflict(base, undo):
    """Planning it afresh would do it twice."""
    try:
        result = commit(base, OURS["append"](base), committer=Late(after=lambda: undo(base)))
    except CommitOutcomeUnknownError:
        pass
    else:
        assert result.version == base.version + 1
    assert locate(base.store, base.version + 1)


@pytest.mark.parametrize("name", ["delete", "replacement by no rows"])
@pytest.mark.parametrize("more", [{0: [1, 2]}, {0: [0], 2: [0]}, {0: [n for n in range(10) if n != 3]}])
def test_a_delete_stands_when_the_next_commit_deletes_more_rows_of_its_fragment(base, more, name):
    """It replaces the deletion file, so that nothing of the next version names a file of ours."""
    operation = OURS[name](base)
    result = commit(base, operation, committer=Late(after=lambda: delete(head(base), more)))
    assert (result.version, result.already_committed) == (base.version + 1, False)
    assert 3 not in values(Dataset.open(base.store))


@pytest.mark.parametrize("name", ["append", "delete"])
def test_a_commit_whose_fragments_the_next_commit_compacts_stands(base, name):
    number = 3 if name == "append" else 0
    result = commit(base, OURS[name](base), committer=Late(after=lambda: compact(head(base), [number])))
    assert (result.version, result.already_committed) == (base.version + 1, False)


@pytest.mark.parametrize("name", ["delete", "replacement by no rows"])
def test_a_delete_that_the_next_version_does_not_know_does_not_stand(base, name):
    def others() -> None:
        overtaken = delete(base, {0: [7]}).dataset
        delete(overtaken, {0: [8]})
        clean_away(base, base.version, base.version + 1)

    with pytest.raises((CommitOutcomeUnknownError, RetryableCommitConflictError)):
        commit(base, OURS[name](base), committer=Late(before=others))
    assert 3 in values(Dataset.open(base.store))


@pytest.mark.parametrize(
    "operation",
    [
        UpdateConfig(config=MapUpdate({"team": "blue"})),
        UpdateConfig(config=MapUpdate({"old": None})),
        UpdateConfig(table_metadata=MapUpdate({"team": "blue"})),
    ],
    ids=["config", "removed config", "table metadata"],
)
def test_a_setting_below_an_overwrite_does_not_stand(base, operation):
    """An Overwrite replaces rows and schema, and keeps the settings: the change would be lost."""
    base = update_config(base, {"old": "value"}).dataset

    def others() -> None:
        append(base, rows(300, 302))
        overwrite(head(base), rows(500, 501))
        clean_away(base, base.version, base.version + 1)

    with pytest.raises(RetryableCommitConflictError, match="cleaned up"):
        commit(base, operation, committer=Late(before=others))
    assert base.version + 1 not in [info.version for info in head(base).versions()]


def test_a_setting_that_an_overwrite_kept_stands(base):
    def others() -> None:
        overwrite(head(base), rows(500, 501))

    operation = UpdateConfig(config=MapUpdate({"team": "blue"}))
    assert commit(base, operation, committer=Late(after=others)).version == base.version + 1
    assert head(base).config["team"] == "blue"


@pytest.mark.parametrize("above", [True, False])
def test_a_job_below_an_overwrite_stands_when_the_table_knows_it(base, above):
    """The rows are replaced either way; but a job that counts as done has to stay so."""

    def others() -> None:
        if not above:
            append(base, rows(300, 302))
        overwrite(head(base), rows(500, 501))
        if not above:
            clean_away(base, base.version, base.version + 1)

    late = Late(after=others) if above else Late(before=others)
    if above:
        commit(base, OURS["append"](base), committer=late, job_key="load")
        assert append(head(base), rows(100, 103), job_key="load").already_committed
    else:
        with pytest.raises(RetryableCommitConflictError, match="cleaned up"):
            commit(base, OURS["append"](base), committer=late, job_key="load")


def test_a_job_whose_rows_others_deleted_too_does_not_stand(base):
    """The rows are gone either way; but the table would not know the job, and a re-run would do it again."""

    def others() -> None:
        append(base, rows(300, 302))
        delete(head(base), {0: [2, 3]})
        clean_away(base, base.version, base.version + 1)

    with pytest.raises(RetryableCommitConflictError, match="cleaned up"):
        commit(base, OURS["delete"](base), committer=Late(before=others), job_key="load")


@pytest.mark.parametrize("next_", list(PASSING))
@OPERATIONS
def test_a_job_that_others_built_on_stands(base, name, next_):
    operation = OURS[name](base)
    late = Late(after=lambda: PASSING[next_](base))
    assert commit(base, operation, committer=late, job_key="load").version == base.version + 1


@pytest.mark.parametrize("name", ["delete", "replacement by no rows"])
def test_a_delete_below_an_update_that_moved_its_rows_does_not_stand(base, name):
    """The fragment is gone, and its rows live on in another one."""

    def others() -> None:
        append(base, rows(300, 302))
        update(base.store, {"a": "a"}, "a < 10")
        clean_away(base, base.version, base.version + 1)

    with pytest.raises((CommitOutcomeUnknownError, RetryableCommitConflictError)):
        commit(base, OURS[name](base), committer=Late(before=others))
    assert 3 in values(head(base))


@pytest.mark.parametrize("job_key", [None, "load"])
def test_an_unanswered_put_that_arrives_below_the_head_is_no_commit(base, monkeypatch, job_key):
    """It met the version of another writer, and was executed after a cleanup had removed that."""
    pending: list[tuple[str, bytes]] = []

    class Unanswered:
        def commit(self, store, location, manifest):
            pending.append((location.path, manifest))
            append(append(base, rows(300, 302)).dataset, rows(302, 304))
            raise StorageError("no answer")

    def arrive(_seconds: float) -> None:
        if pending:
            path, manifest = pending.pop()
            base.store.delete(path)
            base.store.put(path, manifest, if_absent=True)

    monkeypatch.setattr(loop.time, "sleep", arrive)
    with pytest.raises(RetryableCommitConflictError, match=r"cleaned up|not in the history"):
        commit(base, OURS["append"](base), committer=Unanswered(), job_key=job_key)
    assert not {100, 101, 102} & set(values(head(base)))


def test_when_the_next_version_is_gone_too_nobody_knows(base):
    def others() -> None:
        overtaken = append(append(base, rows(300, 302)).dataset, rows(302, 304)).dataset
        append(overtaken, rows(304, 305))
        clean_away(base, *range(base.version, base.version + 3))

    with pytest.raises(CommitOutcomeUnknownError, match="newer versions"):
        commit(base, OURS["append"](base), committer=Late(before=others))


def test_when_the_next_version_is_gone_our_files_in_the_head_tell(base):
    def others() -> None:
        append(append(head(base), rows(300, 302)).dataset, rows(302, 304))
        clean_away(base, base.version + 2)

    result = commit(base, OURS["append"](base), committer=Late(after=others))
    assert result.version == base.version + 1


def test_a_creation_that_comes_too_late_is_noticed():
    store = open_store("memory://succession/created")
    store.delete_many([info.path for info in store.list("")])

    def others() -> None:
        append(create(store, rows(0, 3)), rows(3, 4))
        store.delete(locate(store, 1).path)

    with pytest.raises(DatasetExistsError):
        create(store, rows(100, 103), committer=Late(before=others))
    assert values(Dataset.open(store)) == [0, 1, 2, 3]


def test_a_store_that_lists_badly_leaves_the_outcome_unknown(base):
    put = []

    def list_fails(call) -> bool:
        if call.name == "put" and call.path.startswith("_versions/") and call.path.endswith(".manifest"):
            put.append(call)
        return bool(put) and call.name == "list"

    store = FaultyStore(base.store, fail_at=list_fails, mode="error", times=10)
    with pytest.raises(CommitOutcomeUnknownError, match="newest"):
        commit(Dataset.open(store), OURS["append"](base))
    assert {100, 101, 102} <= set(values(Dataset.open(base.store)))


def test_one_bad_listing_is_asked_again(base):
    put = []

    def list_fails(call) -> bool:
        if call.name == "put" and call.path.endswith(".manifest"):
            put.append(call)
        return bool(put) and call.name == "list"

    store = FaultyStore(base.store, fail_at=list_fails, mode="error", times=1)
    assert commit(Dataset.open(store), OURS["append"](base)).version == base.version + 1
    assert store.fired


def test_a_version_that_its_writer_could_not_take_back_does_not_count_as_the_job(base):
    """The writer dies right after the put; a re-run of the job has to do it."""
    operation = OURS["append"](base)

    def others() -> None:
        append(append(base, rows(300, 302)).dataset, rows(302, 304))
        clean_away(base, base.version, base.version + 1)

    with pytest.raises(InjectedCrash):
        commit(
            Dataset.open(FaultyStore(base.store, fail_at=_after_the_put(others), when="before")),
            operation,
            job_key="load",
        )
    assert base.version + 1 in [info.version for info in Dataset.open(base.store).versions()]
    again = append(Dataset.open(base.store), rows(100, 103), job_key="load")
    assert not again.already_committed
    assert {100, 101, 102, 300, 303} <= set(values(Dataset.open(base.store)))


def _after_the_put(others: Callable[[], None]) -> Callable[[object], bool]:
    """Lets others in before the manifest is put, and hits the call after it."""
    put = []

    def hit(call) -> bool:
        if put:
            return True
        if call.name == "put" and call.path.endswith(".manifest"):
            put.append(call)
            others()
        return False

    return hit
