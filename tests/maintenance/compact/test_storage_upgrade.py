"""Tables with data files of several storage versions, and with row ids and row versions in data files."""

import shutil
import uuid

import lance
import pyarrow as pa
import pytest
from lance.dataset import Index

import lance_ops as lo
from lance_ops import errors
from lance_ops.errors import InvalidArgumentError, UnsupportedTypeError
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS
from lance_ops.table.manifest.feature_flags import Feature
from lance_ops.table.manifest.field_ids import CONFIG_KEY
from tests.support.commands import lance_ops_json
from tests.support.interop import fragment_sizes, rows, xs
from tests.support.upgrades import OPERATIONS, SPILL, STATES, content, copy, flags, layout, more_rows

pytestmark = pytest.mark.peer


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """One table of each kind, made by the peer (or by us)."""
    root = tmp_path_factory.mktemp("states")
    for name, make in STATES.items():
        make(str(root / name))
    return root


def is_stable(state):
    return state.startswith("spilled")


def versions_of(uri):
    return {file.storage_version for fragment in lo.dataset(uri).fragments for file in fragment.files}


@pytest.mark.parametrize("state", STATES)
def test_both_sides_read_the_same_rows_ids_and_versions(tables, state):
    uri = str(tables / state)
    assert content(uri, by="ours") == content(uri, by="peer")
    reader, writer = flags(uri)
    assert reader & 256 == writer & 256 == (0 if state in ("spilled", "spilled compacted") else 256)
    assert reader & 2048 == writer & 2048 == (2048 if is_stable(state) else 0)
    assert lo.fsck(uri, deep=True).ok
    for number in (5, 33):
        found = lo.dataset(uri).to_table(filter=f"x = {number}", with_row_id=True)
        taken = lo.dataset(uri).take(found["_rowid"], ["x"], by="id" if is_stable(state) else "address")
        assert taken["x"].to_pylist() == found["x"].to_pylist()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("state", STATES)
def test_after_every_operation_both_sides_have_the_same_rows_and_flags(tables, tmp_path, state, operation):
    ours, peers = (copy(tables / state, tmp_path / name) for name in ("ours", "peers"))
    do = OPERATIONS[operation]
    do.ours(ours)
    do.peers(peers)
    same_ids = is_stable(state) or do.is_same_layout
    expected = content(peers, by="peer", row_ids=same_ids)
    # A compaction takes as many versions as there are tasks and commits; rows tell their own versions.
    for uri in (ours, peers):
        assert content(uri, by="ours", row_ids=same_ids) == expected
        assert content(uri, by="peer", row_ids=same_ids) == expected
    reader, writer = flags(peers)
    # The highest field id that was given out is kept in the config, whose flag is for writers.
    recorded = CONFIG_KEY in lo.dataset(ours).manifest.config
    assert flags(ours) == (reader, writer | Feature.TABLE_CONFIG if recorded else writer)
    assert lo.dataset(ours).data_storage_version == lance.dataset(peers).data_storage_version
    if do.is_same_layout:
        assert layout(ours) == layout(peers)
    assert lo.fsck(ours, deep=True).ok
    lance.dataset(ours).validate()


@pytest.mark.parametrize("state", STATES)
def test_the_peer_goes_on_after_us_and_we_after_the_peer(tables, tmp_path, state):
    uri = copy(tables / state, tmp_path / "t")
    expected = {row["x"]: row for row in content(uri, by="peer", row_ids=is_stable(state))}

    def check():
        for side in ("ours", "peer"):
            found = {row["x"]: row for row in content(uri, by=side, row_ids=is_stable(state))}
            assert {x: row for x, row in found.items() if x < 1000} == expected

    for actor, operation in [
        ("ours", "append"),
        ("peers", "compact"),
        ("ours", "index"),
        ("peers", "append 2.1"),
        ("ours", "migrate"),
        ("peers", "config"),
        ("ours", "append 2.1"),
        ("ours", "compact"),
        ("peers", "migrate"),
    ]:
        getattr(OPERATIONS[operation], actor)(uri)
        check()
        assert lo.dataset(uri).to_table(filter="x = 25")["x"].to_pylist() == [25]
    OPERATIONS["delete"].ours(uri)
    expected = {x: row for x, row in expected.items() if x % 3 != 1}
    check()
    OPERATIONS["cleanup"].ours(uri)
    check()
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.parametrize("state", STATES)
def test_clones_and_branches_have_the_same_rows_and_can_be_changed(tables, tmp_path, state):
    uri = copy(tables / state, tmp_path / "t")
    clone = str(tmp_path / "clone")
    lance.dataset(uri).shallow_clone(clone, lance.dataset(uri).version)
    lance.dataset(uri).create_branch("dev")
    branch = f"{uri}/tree/dev"
    for place in (clone, branch):
        assert content(place, by="ours") == content(place, by="peer") == content(uri, by="peer")
        OPERATIONS["append"].ours(place)
        lo.delete(place, "x = 7")
        lo.compact(place, data_storage_version="2.2")
        assert content(place, by="ours") == content(place, by="peer")
        kept = {row["x"] for row in content(place, by="peer") if row["x"] < 1000}
        assert kept | {7} == {row["x"] for row in content(uri, by="peer")}


@pytest.mark.parametrize("state", STATES)
def test_replaced_rows_lie_in_files_of_the_version_asked_for(tables, tmp_path, state):
    uri = copy(tables / state, tmp_path / "t")
    before = content(uri, by="peer")
    for options in ({}, {"data_storage_version": "2.1"}):
        predicate = "x % 10 = 5 or x >= 1000"
        lo.write_dataset(more_rows(uri), uri, mode="replace_where", predicate=predicate, **options)
        found = content(uri, by="ours")
        assert found == content(uri, by="peer")
        assert [row for row in found if row["x"] < 1000] == [row for row in before if row["x"] % 10 != 5]
        newest = max(lo.dataset(uri).fragments, key=lambda fragment: fragment.id)
        expected = options.get("data_storage_version", lo.dataset(uri).data_storage_version)
        assert {file.storage_version for file in newest.files} == {expected}


@pytest.mark.parametrize("state", STATES)
def test_migration_moves_every_file_whatever_its_size(tables, tmp_path, state):
    uri = copy(tables / state, tmp_path / "t")
    before = content(uri, by="peer", row_ids=is_stable(state))
    own = lo.dataset(uri).data_storage_version
    # Nothing is small: without a migration there would be nothing to do.
    options = {"target_rows_per_fragment": 1, "materialize_deletions": False}
    assert lo.compact(uri, dry_run=True, **options).groups == ()
    lo.compact(uri, data_storage_version="2.2", **options)
    assert versions_of(uri) == {"2.2"}
    assert content(uri, by="peer", row_ids=is_stable(state)) == before
    assert lo.dataset(uri).data_storage_version == own == lance.dataset(uri).data_storage_version
    assert lo.compact(uri, data_storage_version="2.2", dry_run=True, **options).groups == ()


def test_migration_goes_group_by_group_as_far_as_the_budget_allows(uri):
    lance.write_dataset(rows(0, 100), uri, data_storage_version="2.0", max_rows_per_file=20)
    left = 5
    while left:
        lance_ops_json(
            "compact",
            uri,
            "--data-storage-version",
            "stable",
            "--max-source-fragments",
            2,
            "--target-rows",
            20,
        )
        left = max(0, left - 2)
        assert sum(f.files[0].storage_version == "2.0" for f in lo.dataset(uri).fragments) == left
        assert content(uri, by="peer", row_ids=False) == content(uri, by="ours", row_ids=False)
    assert flags(uri) == (256, 256)
    assert sorted(xs(uri)) == list(range(100))


def test_indices_follow_a_migration(uri):
    lance.write_dataset(rows(0, 100), uri, data_storage_version="2.0", max_rows_per_file=20)
    lance.dataset(uri).create_scalar_index("x", "BTREE")
    lo.compact(uri, data_storage_version="2.1", target_rows_per_fragment=20)
    dataset = lance.dataset(uri)
    assert dataset.stats.index_stats("x_idx")["num_unindexed_rows"] == 0
    for number in range(100):
        assert dataset.count_rows(f"x = {number}") == lo.dataset(uri).count_rows(f"x = {number}") == 1


def test_the_config_names_the_version_that_compactions_write(uri):
    """As with the peer, it makes nothing worth rewriting."""
    lance.write_dataset(rows(0, 100), uri, data_storage_version="2.0", max_rows_per_file=50)
    lance.dataset(uri).update_config({"lance.compaction.data_storage_version": "2.1"})
    assert lo.compact(uri, target_rows_per_fragment=10, dry_run=True).groups == ()
    lo.compact(uri)
    assert versions_of(uri) == {"2.1"}


@pytest.mark.parametrize("asked", ["0.1", "7.1", "legacy"])
def test_versions_that_cannot_be_written_are_refused_before_any_task_runs(uri, asked):
    lo.write_dataset(rows(0, 10), uri, data_storage_version="2.0", max_rows_per_file=5)
    with pytest.raises(errors.LanceOpsError) as caught:
        lo.compact(uri, data_storage_version=asked)
    assert not isinstance(caught.value, errors.TaskFailedError)
    with pytest.raises(errors.LanceOpsError):
        lo.append(uri, rows(0, 1), data_storage_version=asked)
    assert lo.dataset(uri).version == 1


def test_columns_that_the_older_version_cannot_hold_are_named_before_any_task_runs(uri):
    pairs = pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32()))
    lo.write_dataset(pa.table({"m": pairs}), uri, data_storage_version="2.2", max_rows_per_file=1)
    with pytest.raises(UnsupportedTypeError, match="m"):
        lo.compact(uri, data_storage_version="2.0")
    with pytest.raises(UnsupportedTypeError, match="m"):
        lo.append(uri, pa.table({"m": pairs}), data_storage_version="2.0")


def test_null_structs_of_new_files_are_never_written_as_something_else(uri):
    """Version 2.0 cannot hold them, so a compaction to it stops, as the peer's does, and loses nothing."""
    kind = pa.struct([("a", pa.int64())])
    table = pa.table({"s": pa.array([{"a": 1}, None, {"a": None}], kind)})
    lance.write_dataset(table.slice(0, 1), uri, data_storage_version="2.0")
    lo.append(uri, table, data_storage_version="2.2")
    with pytest.raises(errors.LanceOpsError, match="null structs"):
        lo.compact(uri)
    lo.compact(uri, data_storage_version="2.2")
    expected = [{"a": 1}, {"a": 1}, None, {"a": None}]
    assert lo.dataset(uri).to_table()["s"].to_pylist() == expected
    assert lance.dataset(uri).to_table()["s"].to_pylist() == expected


def old_blobs(*values):
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("x", pa.int64()), field])
    return pa.table([list(range(len(values))), pa.array(values, pa.large_binary())], schema=schema)


def test_blobs_of_the_old_kind_end_with_2_1(uri):
    table = old_blobs(b"x", b"y", None)
    lance.write_dataset(table, uri, data_storage_version="2.0", max_rows_per_file=1)
    with pytest.raises(InvalidArgumentError, match="blobs"):
        lo.compact(uri, data_storage_version="2.2")
    with pytest.raises(InvalidArgumentError, match="blobs"):
        lo.append(uri, table, data_storage_version="2.2")
    lo.compact(uri, data_storage_version="2.1")
    assert lo.dataset(uri).to_table()["b"].to_pylist() == [b"x", b"y", None]


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_tables_that_the_peer_gave_the_new_kind_of_blobs_are_read_and_moved(uri, version):
    """Its append of another version turns the column into one of 2.2; older files stay as they are."""
    table = old_blobs(b"x" * 100, None, b"", b"y" * 70_000)
    lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=2)
    lance.write_dataset(table, uri, mode="append", data_storage_version="2.2")
    expected = table["b"].to_pylist() * 2

    def check():
        dataset = lo.dataset(uri)
        found = dataset.to_table()
        assert [value and value["data"] for value in found["b"].to_pylist()] == [
            value or value for value in expected
        ]
        assert lance.dataset(uri).to_table(blob_handling="all_binary")["b"].to_pylist() == expected
        assert dataset.take([3, 4], ["b"])["b"].to_pylist()[0]["data"] == b"y" * 70_000
        assert dataset.to_table(filter="x = 3", columns=["b"]).num_rows == 2
        assert dataset.schema == found.schema

    check()
    with pytest.raises(UnsupportedTypeError, match="blob"):
        lo.compact(uri)
    lo.delete(uri, "x = 77")
    lo.compact(uri, data_storage_version="2.2")
    assert versions_of(uri) == {"2.2"}
    check()


def test_what_the_table_wants_in_data_files_stays_there_when_we_compact(tables, tmp_path):
    uri = copy(tables / "spilled", tmp_path / "t")
    before = content(uri, by="peer")
    lo.compact(uri)
    (fragment,) = lo.dataset(uri).fragments
    assert set(fragment.spilled) == set(LINEAGE_FIELDS)
    assert content(uri, by="ours") == content(uri, by="peer") == before
    # Both sides change such a table further, also by what drops other files of its fragments.
    lance.dataset(uri).update({"s": "'third'"}, where="x = 20")
    OPERATIONS["drop column"].ours(uri)
    lance.dataset(uri).alter_columns({"path": "x", "data_type": pa.int32()})
    lance.dataset(uri).optimize.compact_files()

    def identity(found):
        return [(row["x"], row["_rowid"], row["_row_created_at_version"]) for row in found]

    for side in ("ours", "peer"):
        assert identity(content(uri, by=side)) == identity(before)


def test_the_limit_and_the_switch_decide_where_sequences_go(uri):
    lance.write_dataset(rows(0, 60), uri, max_rows_per_file=20, enable_stable_row_ids=True)
    lance.dataset(uri).update({"s": "'u'"}, where="x % 2 = 1")
    before = content(uri, by="peer")
    for config, spilled in [
        ({"a": "b"}, 0),
        ({**SPILL, "lance.row_lineage.inline_max_bytes": "1000000"}, 0),
        (SPILL, 3),
        ({**SPILL, "lance.row_lineage.spill": "false"}, 0),
        ({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": ""}, 0),
    ]:
        lo.update_config(uri, config)
        lo.append(uri, rows(1000, 1001))
        lo.compact(uri)
        lo.delete(uri, "x >= 1000")
        assert {len(fragment.spilled) for fragment in lo.dataset(uri).fragments} == {spilled}
        assert bool(flags(uri)[0] & 2048) is bool(spilled)
        assert content(uri, by="ours") == content(uri, by="peer") == before


class Meddler:
    """Runs tasks here, and lets the peer in before their results are committed."""

    def __init__(self, action):
        self.action = action

    def map(self, function, tasks, *, on_done=None):
        results = lo.LocalRunner(1).map(function, tasks, on_done=on_done)
        action, self.action = self.action, lambda: None
        action()
        return results


@pytest.mark.parametrize("change", ["append", "delete", "index", "compact", "migrate"])
@pytest.mark.parametrize("stable", [False, True])
def test_what_an_upgrade_of_the_peer_overtakes_lands_on_top_of_it(uri, change, stable):
    """Worked out on a table of one version, committed to one of several and with lineage columns."""
    lance.write_dataset(
        rows(0, 60), uri, data_storage_version="2.0", max_rows_per_file=20, enable_stable_row_ids=stable
    )

    def upgrade():
        lance.write_dataset(rows(60, 70), uri, mode="append", data_storage_version="2.2")
        if stable:
            lance.dataset(uri).update_config({**SPILL, "lance.row_lineage.inline_max_bytes": "1"})
            lance.dataset(uri).update({"s": "'u'"}, where="x >= 60 and x % 2 = 1")

    meddler = Meddler(upgrade)
    if change == "append":
        batches = rows(1000, 1002).to_batches()
        lo.append(uri, _letting_in(batches, upgrade))
    elif change == "delete":
        lo.delete(uri, "x % 20 = 7", runner=meddler)
    elif change == "index":
        lo.create_index(uri, "x", runner=meddler)
    else:
        version = {"data_storage_version": "2.1"} if change == "migrate" else {}
        lo.compact(uri, runner=meddler, max_source_fragments=3, **version)
    wanted = [x for x in range(70) if change != "delete" or x % 20 != 7 or x >= 60]
    wanted += [1000, 1001] if change == "append" else []
    assert [row["x"] for row in content(uri, by="ours")] == wanted
    assert content(uri, by="ours") == content(uri, by="peer")
    assert flags(uri)[0] & (256 | 2048) == (256 | 2048 if stable else 256)
    assert "2.2" in versions_of(uri)
    assert lo.fsck(uri, deep=True).ok


def _letting_in(batches, action):
    def stream():
        yield from batches
        action()

    return pa.RecordBatchReader.from_batches(batches[0].schema, stream())


def test_indices_that_carry_columns_are_kept_and_never_written_anew(uri):
    """What took their place would lack the columns, and their fragments would seem to have them."""
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=20)
    lance.dataset(uri).create_scalar_index("x", "BTREE")
    plain = lo.dataset(uri).indices[0]
    other = str(uuid.uuid4())
    shutil.copytree(f"{uri}/{plain.directory}", f"{uri}/_indices/{other}")
    covering = Index(
        uuid=other,
        name="covering",
        fields=[0, 1],
        covering_fields=[1],
        dataset_version=1,
        fragment_ids={0, 1},
        index_version=0,
        index_details=(plain.type_url, plain.details),
    )
    lance.LanceDataset.commit(uri, lance.LanceOperation.CreateIndex([covering], []), read_version=2)
    assert flags(uri) == (128, 128)
    kept = next(index for index in lo.dataset(uri).indices if index.name == "covering")
    lo.append(uri, rows(40, 50))
    lo.append(uri, rows(50, 60))
    lo.delete(uri, "x = 3")
    lo.optimize_indices(uri)
    lo.compact(uri)
    assert next(index for index in lo.dataset(uri).indices if index.name == "covering") == kept
    assert flags(uri)[0] & 128
    assert {0, 1} < set(fragment_sizes(uri))
    for number in range(60):
        assert lance.dataset(uri).count_rows(f"x = {number}") == int(number != 3)
        assert lo.dataset(uri).count_rows(f"x = {number}") == int(number != 3)
    lo.drop_index(uri, "covering")
    assert flags(uri)[0] & 128 == 0
