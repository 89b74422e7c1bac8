"""Opening snapshots, and what they know of themselves."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta, timezone

import pyarrow as pa
import pytest

from lance_ops.errors import (
    CorruptFileError,
    CorruptManifestError,
    DatasetNotFoundError,
    FileMissingError,
    InvalidArgumentError,
    NotFoundError,
    PathEscapeError,
    PredicateError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_ops.file.schema.model import Schema
from lance_ops.maintenance.metadata.actions import update_config
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.refs import branch_path, create_tag
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import DeletionFile, Fragment
from lance_ops.table.manifest.model import BasePath
from tests.support.faulty_store import FaultyStore
from tests.support.snapshots import location, put_snapshot, write_snapshot
from tests.support.tables import create, rows

TABLE = pa.table({"k": pa.array(range(10)), "s": [str(k) for k in range(10)]}, metadata={"a": "b"})


@pytest.fixture
def store(tmp_path):
    made = open_store(tmp_path / "t.lance")
    first = write_snapshot(made, [TABLE], deleted={0: [3]})
    (fragment,) = first.fragments
    put_snapshot(
        made,
        fragment,
        fragment.replace(id=1, deletion_file=None),
        schema=first.lance_schema,
        version=2,
        config={"owner": "me"},
    )
    return made


def with_branch(store, name="team/exp"):
    """A branch that forked off version 1 and has a version of its own."""
    (fragment,) = Dataset.open(store, 1).fragments
    file = fragment.files[0]
    elsewhere = Fragment(
        0,
        (replace(file, base_id=0),),
        fragment.physical_rows,
    )
    branch = store.child(f"tree/{name}")
    schema = Schema.from_arrow(TABLE.schema)
    bases = (BasePath(0, store.uri, True),)
    for version in (1, 2):
        put_snapshot(branch, elsewhere, schema=schema, version=version, branch=name, base_paths=bases)
    store.put(branch_path(name), b'{"parentVersion": 1}')
    return branch


def test_a_snapshot_knows_itself(store):
    found = Dataset.open(store.uri)
    assert (found.uri, found.version, found.branch) == (store.uri, 2, None)
    assert found.schema.equals(TABLE.schema, check_metadata=True)
    assert found.lance_schema.names == ("k", "s")
    assert found.config == {"owner": "me"}
    assert found.data_storage_version == "2.2"
    assert [fragment.id for fragment in found.fragments] == [0, 1]
    assert (found.indices, found.tags, found.branches) == ((), {}, {})
    assert repr(found) == f"Dataset({store.uri!r}, version=2)"
    assert found.count_rows() == 19
    assert list(found.deletion_vector(found.fragments[0]).offsets()) == [3]
    assert found.deletion_vector(found.fragments[1]) is None


def test_who_changes_what_a_dataset_told_changes_it_for_nobody_else(store):
    Dataset.open(store).config["owner"] = "you"
    assert Dataset.open(store).config == {"owner": "me"}


@pytest.mark.parametrize("version", [1, "good", (None, 1), ("main", 1)])
def test_a_version_is_a_number_a_tag_or_a_pair(store, version):
    create_tag(store, "good", 1)
    for found in (Dataset.open(store, version), Dataset.open(store).checkout_version(version)):
        assert (found.version, found.count_rows()) == (1, 9)
        assert found.is_stale()
        assert found.latest().version == 2


def test_a_moment_opens_the_newest_version_made_by_then(tmp_path):
    store = open_store(tmp_path / "t.lance")
    update_config(create(store, rows(0, 3)), {"a": "b"})
    first, second = Dataset.open(store).versions()
    assert first.timestamp < second.timestamp
    between = first.timestamp + (second.timestamp - first.timestamp) / 2
    for moment, version in (
        (first.timestamp, 1),
        (between, 1),
        (between.isoformat(), 1),
        (between.astimezone(timezone(timedelta(hours=5))), 1),
        (between.astimezone().replace(tzinfo=None), 1),
        (second.timestamp, 2),
        ("9999-12-31", 2),
    ):
        assert Dataset.open(store, asof=moment).version == version
    with pytest.raises(VersionNotFoundError, match="all existing versions are newer than"):
        Dataset.open(store, asof=first.timestamp - timedelta(microseconds=1))
    with pytest.raises(InvalidArgumentError, match="not both"):
        Dataset.open(store, 1, asof=between)
    for moment in ("yesterday", 3.5):
        with pytest.raises(InvalidArgumentError):
            Dataset.open(store, asof=moment)


def test_a_moment_of_no_dataset_is_no_version(tmp_path):
    with pytest.raises(DatasetNotFoundError):
        Dataset.open(tmp_path / "nothing.lance", asof="2026-01-01")


def test_rows_come_as_a_table_as_batches_as_a_frame_and_as_the_first_few(store):
    dataset = Dataset.open(store)
    every = dataset.to_table(["k"])
    assert dataset.head(3, ["k"]).equals(every.slice(0, 3))
    assert dataset.head(2, filter="k > 4")["k"].to_pylist() == [5, 6]
    assert dataset.to_table(["k"], None, 4, 2).equals(dataset.to_table(["k"], limit=4, offset=2))
    assert (
        dataset.to_pandas(["k"], "k < 2")["k"].tolist() == dataset.to_table(["k"], "k < 2")["k"].to_pylist()
    )
    sizes = [batch.num_rows for batch in dataset.to_batches(["k"], batch_size=4)]
    assert sum(sizes) == every.num_rows
    assert max(sizes) == 4


def test_branches_open_from_both_ends(store):
    branch = with_branch(store)
    create_tag(store, "tried", 1, branch="team/exp")
    for found in (
        Dataset.open(store, ("team/exp", None)),
        Dataset.open(branch.uri),
        Dataset.open(branch.uri, ("team/exp", 2)),
        Dataset.open(store).checkout_version("tried").latest(),
        pickle.loads(pickle.dumps(Dataset.open(branch.uri))),
    ):
        assert (found.uri, found.version, found.branch) == (branch.uri, 2, "team/exp")
        assert found.to_table().equals(TABLE)
        assert list(found.tags) == ["tried"]
        assert list(found.branches) == ["team/exp"]
        assert found.checkout_version(1).branch == "team/exp"
        assert found.checkout_version(("main", None)).uri == store.uri
    assert Dataset.open(branch.uri, "tried").version == 1
    assert [item.version for item in Dataset.open(branch.uri).versions()] == [1, 2]


def test_what_is_not_there_is_said_so(store, tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"nothing\.lance"):
        Dataset.open(tmp_path / "nothing.lance")
    for version, message in (
        (9, "newest version is 2"),
        ("nope", "no tag 'nope'"),
        (("x", 1), "no branch 'x'"),
    ):
        with pytest.raises(VersionNotFoundError, match=message):
            Dataset.open(store, version)
        with pytest.raises(VersionNotFoundError):
            Dataset.open(store).checkout_version(version)
    for version in (True, 1.5, ("a", 1, 2), -1):
        with pytest.raises(InvalidArgumentError):
            Dataset.open(store, version)
    with pytest.raises(NotFoundError, match="records no transaction"):
        Dataset.open(store).read_transaction()
    with pytest.raises(VersionNotFoundError):
        Dataset.open(store).read_transaction(9)


@pytest.mark.parametrize(("version", "calls"), [(1, ["exists", "read"]), (None, ["list", "read"])])
def test_opening_takes_few_requests(store, version, calls):
    counting = FaultyStore(store, count="any")
    found = Dataset.open(counting, version)
    found.count_rows()
    assert [call.name for call in counting.calls] == calls


def test_a_snapshot_stays_what_it_was(store):
    old = Dataset.open(store, 1)
    copy = pickle.loads(pickle.dumps(old))
    put_snapshot(store, schema=old.lance_schema, version=3)
    for found in (old, copy):
        assert (found.version, found.count_rows(), found.is_stale()) == (1, 9, True)
        assert found.to_table().num_rows == 9
    assert old.latest().count_rows() == 0
    assert old.latest().to_table().equals(TABLE.slice(0, 0))


def test_deletion_files_are_read_once(store):
    counting = FaultyStore(store, count="any")
    found = Dataset.open(counting)
    counting.reset()
    for _ in range(3):
        found.deletion_vector(found.fragments[0])
        found.to_table(["k"], limit=1)
    assert sum(call.path.startswith("_deletions") for call in counting.calls) == 1


def test_many_threads_may_read_one_snapshot(store):
    found = Dataset.open(store)
    expected = found.to_table()
    with ThreadPoolExecutor(8) as pool:
        assert all(table.equals(expected) for table in pool.map(lambda _: found.to_table(), range(40)))


def test_features_that_are_not_implemented_are_refused_on_opening(store):
    put_snapshot_of = Dataset.open(store).manifest
    with pytest.raises(UnsupportedFeatureError, match="8192"):
        put_snapshot(store, schema=put_snapshot_of.schema, version=3, reader_flags=8192)
    assert put_snapshot(store, schema=put_snapshot_of.schema, version=4, writer_flags=8192).version == 4


def test_damage_is_named_and_changes_nothing(store):
    (fragment,) = Dataset.open(store, 1).fragments
    before = {info.path: bytes(store.read(info.path)) for info in store.list("")}
    data = f"data/{fragment.files[0].path}"
    deletions = fragment.deletion_file.path(0)
    for path, error in (
        (data, CorruptFileError),
        (deletions, CorruptFileError),
        (location(2).path, CorruptManifestError),
    ):
        for length in (0, 1, len(before[path]) // 2, len(before[path]) - 1):
            store.put(path, before[path][:length])
            with pytest.raises(error):
                Dataset.open(store).to_table()
        store.delete(path)
        if path != location(2).path:
            with pytest.raises(FileMissingError):
                Dataset.open(store).to_table()
        store.put(path, before[path])
    assert {info.path: bytes(store.read(info.path)) for info in store.list("")} == before
    assert Dataset.open(store).count_rows() == 19


def test_paths_that_leave_the_root_are_refused_before_any_read(store, tmp_path):
    secret = tmp_path / "secret.lance"
    secret.write_bytes(b"x")
    (fragment,) = Dataset.open(store, 1).fragments
    file = fragment.files[0]
    for path in ("../../secret.lance", str(secret), "file:///etc/passwd"):
        bad = Fragment(0, (DataFile(path, file.fields, file.column_indices, 2, 0, 1),), 10)
        found = put_snapshot(
            FaultyStore(store, count="any"), bad, schema=Schema.from_arrow(TABLE.schema), version=3
        )
        found.store.reset()
        with pytest.raises(PathEscapeError):
            found.to_table()
        assert found.store.calls == []
    relative = put_snapshot(
        store,
        Fragment(0, (DataFile(file.path, file.fields, file.column_indices, 2, 0, base_id=1),), 10),
        schema=Schema.from_arrow(TABLE.schema),
        version=4,
        base_paths=(BasePath(1, "../elsewhere", True),),
    )
    with pytest.raises(PathEscapeError, match="base 1"):
        relative.to_table()


def test_numbers_that_old_manifests_lack_are_looked_up(store):
    known = Dataset.open(store, 1)
    (fragment,) = known.fragments
    reference = fragment.deletion_file
    silent = fragment.replace(
        physical_rows=0,
        deletion_file=DeletionFile(reference.file_type, reference.read_version, reference.id, 0),
    )
    found = put_snapshot(store, silent, schema=known.lance_schema, version=3)
    assert found.fragments == known.fragments
    assert found.count_rows() == 9
    assert found.to_table().equals(known.to_table())
    assert found.manifest.fragments[0].physical_rows == 0


def test_a_filter_is_parsed_once_unless_it_depends_on_the_day(store):
    dataset = Dataset.open(store)
    assert dataset.parse_filter("k = 1") is dataset.parse_filter("k = 1")
    assert dataset.parse_filter("_score > 0", "_score") is not None
    with pytest.raises(PredicateError):
        dataset.parse_filter("_score > 0")
    today = "cast(current_date() as string) > s"
    assert dataset.parse_filter(today) is not dataset.parse_filter(today)
    first = dataset.parse_filter("k = 0")
    for number in range(200):
        assert dataset.parse_filter(f"k = {number}").to_sql() == f"k = {number}"
    assert dataset.parse_filter("k = 0").to_sql() == first.to_sql()
