"""Tags and branches."""

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    AlreadyExistsError,
    CorruptManifestError,
    InvalidArgumentError,
    VersionNotFoundError,
)
from lance_ops.storage import open_store
from lance_ops.table.history.refs import (
    branch_path,
    check_branch_name,
    check_tag_name,
    create_tag,
    delete_tag,
    list_branches,
    list_tags,
    read_tag,
    update_tag,
)
from tests.support.faulty_store import FaultyStore

TAG_NAMES = ["a", "A-1", "x_y", "1.2", "é", "-x", "main"]
BAD_TAG_NAMES = ["", ".", "..", ".x", "x.", "a..b", "x.lock", "a b", "a/b", "a:b", "../x", "a\n"]
BRANCH_NAMES = ["a", "a/b", "a/b/c", ".x", "a.b", "A-", "é"]
BAD_BRANCH_NAMES = [
    "",
    "main",
    ".",
    "..",
    "a/..",
    "a/./b",
    "/a",
    "a/",
    "a//b",
    "a b",
    "a\\b",
    "x.lock",
    "a:b",
]


@pytest.fixture
def uri(tmp_path):
    path = str(tmp_path / "t.lance")
    for number in range(3):
        lance.write_dataset(pa.table({"i": [number]}), path, mode="append" if number else "create")
    return path


def test_a_tag_is_made_moved_and_removed(uri):
    store = open_store(uri)
    made = create_tag(store, "good", 1, metadata={"who": "me"})
    assert list_tags(store) == {"good": made} == {"good": read_tag(store, "good")}
    assert made.manifest_size == store.size("_versions/18446744073709551614.manifest")
    moved = update_tag(store, "good", 3)
    assert (moved.version, moved.metadata, moved.created_at) == (3, {"who": "me"}, made.created_at)
    assert moved.updated_at >= made.updated_at
    delete_tag(store, "good")
    assert list_tags(store) == {}


def test_tags_that_exist_or_do_not(uri):
    store = open_store(uri)
    create_tag(store, "a", 1)
    with pytest.raises(AlreadyExistsError, match="'a' already exists"):
        create_tag(store, "a", 2)
    with pytest.raises(AlreadyExistsError, match="'a' already exists"):
        create_tag(FaultyStore(store, conditional_put=False), "a", 2)
    for call in (
        lambda: read_tag(store, "b"),
        lambda: update_tag(store, "b", 1),
        lambda: delete_tag(store, "b"),
    ):
        with pytest.raises(VersionNotFoundError, match="no tag 'b'"):
            call()
    for call in (lambda: create_tag(store, "c", 9), lambda: update_tag(store, "a", 9)):
        with pytest.raises(VersionNotFoundError, match="version 9"):
            call()
    assert {name: tag.version for name, tag in list_tags(store).items()} == {"a": 1}


@pytest.mark.parametrize("name", TAG_NAMES)
def test_good_tag_names(name):
    assert check_tag_name(name) == name


@pytest.mark.parametrize("name", BAD_TAG_NAMES)
def test_bad_tag_names(name):
    with pytest.raises(InvalidArgumentError):
        check_tag_name(name)


@pytest.mark.parametrize("name", BRANCH_NAMES)
def test_good_branch_names(name):
    assert check_branch_name(name) == name


@pytest.mark.parametrize("name", BAD_BRANCH_NAMES)
def test_bad_branch_names(name):
    with pytest.raises(InvalidArgumentError):
        check_branch_name(name)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": "1"}',
        '{"version": true}',
        '{"version": -1}',
        '{"version": 1, "branch": 3}',
        '{"version": 1, "createdAt": "yesterday"}',
        '{"version": 1, "metadata": {"a": 1}}',
        '{"version": 1, "metadata": []}x',
        "[" * 100_000,
    ],
)
def test_damaged_tag_files_are_named(uri, content):
    store = open_store(uri)
    store.put("_refs/tags/odd.json", content.encode())
    for look in (list_tags, lambda s: read_tag(s, "odd")):
        with pytest.raises(CorruptManifestError, match=r"odd\.json"):
            look(store)


@pytest.mark.parametrize(
    "content",
    [
        '{"parentVersion": "1"}',
        '{"parentVersion": 1, "createAt": 99999999999999999}',
        '{"parentVersion": 1, "identifier": {"version_mapping": [[1]]}}',
        '{"parentVersion": 1, "identifier": []}x',
    ],
)
def test_damaged_branch_files_are_named(uri, content):
    store = open_store(uri)
    store.put(branch_path("team/odd"), content.encode())
    with pytest.raises(CorruptManifestError, match=r"team%2Fodd\.json"):
        list_branches(store)


def test_tags_of_old_writers_have_less_to_say(uri):
    store = open_store(uri)
    store.put("_refs/tags/old.json", b'{"version": 2}')
    tag = read_tag(store, "old")
    assert (tag.version, tag.branch, tag.created_at, tag.manifest_size, tag.metadata) == (
        2,
        None,
        None,
        0,
        {},
    )


@pytest.mark.peer
def test_both_sides_make_move_and_remove_the_same_tags(uri):
    store = open_store(uri)
    theirs = lance.dataset(uri)
    branch = theirs.create_branch("team/exp", 2)
    create_tag(store, "ours", 1, metadata={"a": "b"})
    create_tag(store, "ours.branch", 2, branch="team/exp")
    theirs.tags.create("theirs", 3)
    listed = theirs.tags.list()
    assert listed.keys() == list_tags(store).keys()
    for name, tag in list_tags(store).items():
        assert tag.version == listed[name]["version"]
        assert tag.branch == listed[name]["branch"]
        assert tag.created_at == listed[name]["created_at"]
        assert tag.manifest_size == listed[name]["manifest_size"]
        assert tag.metadata == listed[name]["metadata"]
    ours = json.loads(bytes(store.read("_refs/tags/ours.json")))
    assert ours.keys() == json.loads(bytes(store.read("_refs/tags/theirs.json"))).keys()
    assert lance.dataset(uri, version="ours").version == 1
    theirs.tags.update("ours", 2)
    assert read_tag(store, "ours").version == 2
    update_tag(store, "theirs", 1)
    assert lance.dataset(uri, version="theirs").version == 1
    delete_tag(store, "theirs")
    theirs.tags.delete("ours")
    assert list(theirs.tags.list()) == ["ours.branch"] == list(list_tags(store))
    found = list_branches(store)["team/exp"]
    described = theirs.branches.list()["team/exp"]
    assert found.parent_version == described["parent_version"]
    assert found.lineage == tuple(described["branch_identifier"])
    assert branch.uri.endswith(found.directory)


@pytest.mark.peer
@pytest.mark.parametrize("name", [*TAG_NAMES, *BAD_TAG_NAMES])
def test_the_peer_has_the_same_rules_for_tags(uri, name):
    try:
        lance.dataset(uri).tags.create(name, 1)
        accepted = True
    except (OSError, ValueError):
        accepted = False
    assert accepted == (name in TAG_NAMES)


@pytest.mark.peer
@pytest.mark.parametrize("name", [*BRANCH_NAMES, *BAD_BRANCH_NAMES])
def test_the_peer_has_the_same_rules_for_branches(uri, name):
    try:
        lance.dataset(uri).create_branch(name, 1)
        accepted = True
    except (OSError, ValueError):
        accepted = False
    assert accepted == (name in BRANCH_NAMES)
    if accepted:
        assert list(list_branches(open_store(uri))) == [name]


@pytest.mark.parametrize("name", ["x" * 251, "é" * 126])
def test_a_name_that_no_file_can_have_is_refused_before_anything_is_made(uri, name):
    before = sorted(Path(uri).rglob("*"))
    with pytest.raises(InvalidArgumentError, match="too long") as caught:
        create_tag(open_store(uri), name, 1)
    assert caught.value.field == "name"
    with pytest.raises(InvalidArgumentError, match="too long"):
        lo.create_branch(uri, name)
    assert sorted(Path(uri).rglob("*")) == before
    longest = "x" * 250
    create_tag(open_store(uri), longest, 1)
    assert list(list_tags(open_store(uri))) == [longest]
