"""Discovery finds what is a dataset, by each kind of rule, and nothing else."""

import os

import pytest

from lance_ops.fleet.discover.operation import discover_datasets
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.stores.opened import FleetStores
from tests.support.fleets import rows, write


def names(root, rules: str) -> list[str]:
    text = f"version: 1\nstores: {{s: {root}}}\ndiscover: [{rules}]\n"
    found = discover_datasets(FleetStores(parse_policy(text)))
    assert not found.errors
    assert found.complete
    return [item.name for item in found.datasets]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    for path in ("a.lance", "ml/b.lance", "ml/deep/c.lance", "ml/plain", "tmp/d.lance"):
        write(root, path)
    (root / "docs").mkdir()
    (root / "docs" / "readme.md").write_text("x")
    write(root, "_lance_ops_fleet/looks.lance")
    return root


def test_folders_have_all_datasets_below_and_not_the_ledger(lake):
    assert names(lake, "{store: s}") == [
        "a.lance",
        "ml/b.lance",
        "ml/deep/c.lance",
        "ml/plain",
        "tmp/d.lance",
    ]


def test_patterns_name_some_of_them(lake):
    assert names(lake, '{store: s, glob: "*.lance"}') == ["a.lance"]
    assert names(lake, '{store: s, glob: "*/*.lance", exclude: ["tmp/*"]}') == ["ml/b.lance"]
    assert names(lake, '{store: s, glob: "ml/**/*"}') == ["ml/b.lance", "ml/deep/c.lance", "ml/plain"]
    assert names(lake, '{store: s, path: ml, glob: "?.lance"}') == ["ml/b.lance"]


def test_a_lancedb_folder_has_tables_by_their_suffix(lake):
    assert names(lake, "{store: s, kind: lancedb, path: ml}") == ["ml/b.lance"]


def test_a_folder_that_is_a_dataset_is_one(lake):
    assert names(lake / "ml" / "plain", "{store: s}") == ["plain"]


def test_a_rule_that_finds_nothing_is_named(lake):
    text = (
        f"version: 1\nstores: {{x: {lake}-2, y: {lake}}}\n"
        'discover: [{store: x}, {store: y}, {store: y, glob: "*.lanc"}]\n'
    )
    found = discover_datasets(FleetStores(parse_policy(text)))
    assert found.empty == (
        f"store x: no dataset was found below {lake}-2",
        f"store y: no dataset was found below {lake} by the pattern '*.lanc'",
    )
    assert found.complete  # an empty folder is no failure: datasets that were there are gone
    assert len(found.datasets) == 5


def test_several_stores_come_first_in_names(lake):
    text = f"version: 1\nstores: {{x: {lake}/ml, y: {lake}/tmp}}\n"
    found = discover_datasets(FleetStores(parse_policy(text)))
    assert [item.name for item in found.datasets] == [
        "x/b.lance",
        "x/deep/c.lance",
        "x/plain",
        "y/d.lance",
    ]


def test_a_store_that_fails_does_not_hide_the_others(lake, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    text = (
        f"version: 1\nstores:\n  x: {lake}/ml\n"
        "  y: {root: 's3://b/c', options: {secret_access_key: '${NO_SUCH_KEY}'}}\n"
    )
    found = discover_datasets(FleetStores(parse_policy(text)))
    assert len(found.datasets) == 3
    assert "NO_SUCH_KEY" in found.errors[0]
    assert not found.complete


def test_markers_of_a_namespace_hide_tables(tmp_path):
    for name in ("live", "declared", "dropped"):
        write(tmp_path, f"{name}.lance")
    (tmp_path / "declared.lance" / ".lance-reserved").touch()
    (tmp_path / "dropped.lance" / ".lance-deregistered").touch()
    assert names(tmp_path, "{store: s, kind: namespace}") == ["live.lance"]


@pytest.mark.peer
def test_a_namespace_of_the_peer_has_the_tables_that_it_lists(tmp_path):
    # Its models of a namespace take seconds to import, which every collection of the tests would wait for.
    import io

    import lance.namespace
    import pyarrow as pa

    space = lance.namespace.DirectoryNamespace(root=str(tmp_path))
    space.create_namespace(lance.namespace.CreateNamespaceRequest(id=["team"]))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows(0, 1).schema) as writer:
        writer.write_table(rows(0, 3))
    told = []
    for name in (["one"], ["team", "two"]):
        space.create_table(lance.namespace.CreateTableRequest(id=name), sink.getvalue())
        location = space.describe_table(lance.namespace.DescribeTableRequest(id=name)).location
        told.append(os.path.relpath(location.removeprefix("file://"), tmp_path))
    assert names(tmp_path, "{store: s, kind: namespace}") == sorted(told)
