"""Branches are made, written and removed as by the peer, and cleanups keep what they use."""

import json
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    AlreadyExistsError,
    BranchInUseError,
    CleanupRefusedError,
    DatasetExistsError,
    InvalidArgumentError,
    RetryableCommitConflictError,
    VersionNotFoundError,
)
from lance_ops.storage import open_store
from lance_ops.table.history.pins import announce_removal, removal_path
from lance_ops.table.history.refs import branch_path
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.leases import forget_leases

NOW = timedelta(0)


def rows(*values: int) -> pa.Table:
    return pa.table({"i": pa.array(values, pa.int64())})


def values(dataset: lo.Dataset) -> list[int]:
    return sorted(dataset.to_table()["i"].to_pylist())


def peer_values(uri: Path, branch: str | None) -> list[int]:
    dataset = lance.dataset(str(uri))
    if branch is not None:
        dataset = dataset.checkout_version((branch, None))
    dataset.validate()
    return sorted(dataset.to_table()["i"].to_pylist())


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    for number in range(3):
        lo.append(path, rows(number))
    return path


def test_a_branch_has_the_rows_of_its_start_and_then_its_own(uri: Path) -> None:
    made = lo.create_branch(uri, "try/this", 2, metadata={"why": "a test"})
    assert (made.version, made.branch, values(made)) == (2, "try/this", [0, 1])
    lo.append(made, rows(10))
    lo.delete(made, "i = 0")
    lo.append(uri, rows(3))
    assert values(lo.dataset(uri, ("try/this", None))) == [1, 10]
    assert values(lo.dataset(uri)) == [0, 1, 2, 3]
    branch = lo.dataset(uri).branches["try/this"]
    assert (branch.parent_branch, branch.parent_version, branch.metadata) == (None, 2, {"why": "a test"})


@pytest.mark.peer
def test_the_peer_reads_writes_and_removes_ours(uri: Path) -> None:
    lo.create_index(uri, "i", "BTREE")
    lo.create_branch(uri, "a")
    lo.create_branch(uri, "b", ("a", None))
    for name in ("a", "b"):
        theirs = lance.dataset(str(uri)).checkout_version((name, None))
        theirs.insert(rows(7))
        theirs.delete("i = 1")
        assert peer_values(uri, name) == values(lo.dataset(uri, (name, None))) == [0, 2, 7]
        assert lo.dataset(uri, (name, None)).count_rows("i = 2") == 1
    dataset = lance.dataset(str(uri))
    with pytest.raises(OSError, match="referenced"):
        dataset.branches.delete("a")
    dataset.branches.delete("b")
    dataset.branches.delete("a")
    assert lo.dataset(uri).branches == {}
    assert peer_values(uri, None) == [0, 1, 2]


@pytest.mark.peer
def test_what_describes_a_branch_is_what_the_peer_writes(uri: Path) -> None:
    dataset = lance.dataset(str(uri))
    theirs = dataset.create_branch("theirs", 2)
    theirs.create_branch("theirs.below")
    lo.create_branch(uri, "ours", 2)
    lo.create_branch(uri, "ours.below", ("ours", None))

    def described(name: str) -> dict[str, object]:
        content = json.loads((uri / branch_path(name)).read_text())
        content["identifier"]["version_mapping"] = [
            [version, len(mark)] for version, mark in content["identifier"]["version_mapping"]
        ]
        content["parentBranch"] = (content["parentBranch"] or "").replace("theirs", "ours")
        content["createAt"] = content["createAt"] > 1_700_000_000
        content.pop("manifestSize")
        return content

    for below in ("", ".below"):
        assert described(f"ours{below}") == described(f"theirs{below}")
        ours, other = (lo.dataset(uri, (f"{name}{below}", None)) for name in ("ours", "theirs"))
        # The peer keeps bases in no order.
        bases = [
            {(base.id, (base.name or "").replace("theirs", "ours")) for base in made.manifest.base_paths}
            for made in (ours, other)
        ]
        assert bases[0] == bases[1]
        assert ours.manifest.fragments[0].files[0].base_id == other.manifest.fragments[0].files[0].base_id


def test_a_branch_that_is_used_cannot_be_removed(uri: Path) -> None:
    made = lo.create_branch(uri, "a")
    lo.create_branch(made, "b")
    with pytest.raises(BranchInUseError, match="branch 'b'"):
        lo.delete_branch(uri, "a")
    lo.delete_branch(uri, "b")
    lo.create_tag(made, "t")
    with pytest.raises(BranchInUseError, match="tag 't'"):
        lo.delete_branch(uri, "a")
    lo.delete_tag(uri, "t")
    assert lo.delete_branch(uri, "a") > 0
    assert not (uri / "tree").exists() or not any(path.is_file() for path in (uri / "tree").rglob("*"))
    with pytest.raises(VersionNotFoundError):
        lo.delete_branch(uri, "a")
    lo.create_branch(uri, "a")


def test_branches_below_a_removed_one_in_name_alone_stay(uri: Path) -> None:
    lo.create_branch(uri, "a")
    lo.create_branch(uri, "a/b")
    lo.create_branch(uri, "a/data")
    lo.delete_branch(uri, "a")
    assert values(lo.dataset(uri, ("a/b", None))) == values(lo.dataset(uri, ("a/data", None))) == [0, 1, 2]


def test_refusals(uri: Path) -> None:
    lo.create_branch(uri, "a")
    with pytest.raises(AlreadyExistsError):
        lo.create_branch(uri, "a")
    with pytest.raises(VersionNotFoundError):
        lo.create_branch(uri, "b", 9)
    for name in ("main", "", "a b", "../x"):
        with pytest.raises(InvalidArgumentError):
            lo.create_branch(uri, name)
    announce_removal(open_store(uri), removal_path(), [1], ())
    with pytest.raises(RetryableCommitConflictError):
        lo.create_branch(uri, "b", 1)


@pytest.mark.peer
@pytest.mark.parametrize("cleaner", ["ours", "peer"])
def test_a_cleanup_keeps_what_branches_started_at(uri: Path, cleaner: str) -> None:
    lo.create_branch(uri, "a", 2)
    lo.append(lo.dataset(uri, ("a", None)), rows(8))
    lo.create_branch(uri, "b", ("a", 3))
    lo.delete(uri, "i < 2")
    lo.compact(uri, materialize_deletions_threshold=0.0)
    if cleaner == "ours":
        done = lo.cleanup(uri, retain_versions=1, older_than=NOW, delete_unverified=True)
        assert done.complete
    else:
        lance.dataset(str(uri)).cleanup_old_versions(older_than=NOW, delete_unverified=True)
    kept = [info.version for info in lo.dataset(uri).versions()]
    assert kept[0] == 2
    assert len(kept) == 2
    assert values(lo.dataset(uri)) == peer_values(uri, None) == [2]
    assert values(lo.dataset(uri, ("a", None))) == peer_values(uri, "a") == [0, 1, 8]
    assert values(lo.dataset(uri, ("b", None))) == peer_values(uri, "b") == [0, 1, 8]


@pytest.mark.peer
def test_a_branch_is_cleaned_up_without_touching_its_start(uri: Path) -> None:
    made = lo.create_branch(uri, "a")
    for number in range(10, 14):
        lo.append(made.latest(), rows(number))
    branch = lo.dataset(uri, ("a", None))
    lo.create_branch(branch, "b", ("a", 5))
    lo.create_tag(branch, "t", 4)
    lo.compact(branch)
    plan = lo.cleanup(
        branch.latest(), retain_versions=1, older_than=NOW, delete_unverified=True, dry_run=True
    )
    reasons = {verdict.version: verdict.reason for verdict in plan.versions}
    assert reasons[5] == "named by branch b"
    assert reasons[4] == "named by tag t"
    lo.cleanup(branch.latest(), retain_versions=1, older_than=NOW, delete_unverified=True)
    assert values(lo.dataset(uri)) == [0, 1, 2]
    assert peer_values(uri, "a") == values(lo.dataset(uri, ("a", None))) == [0, 1, 2, 10, 11, 12, 13]
    assert peer_values(uri, "b") == [0, 1, 2, 10, 11]
    assert values(lo.dataset(uri, "t")) == [0, 1, 2, 10]
    assert lo.cleanup(uri, retain_versions=1, older_than=NOW).complete


def test_versions_that_no_branch_is_described_for_hold_cleanups(uri: Path) -> None:
    lo.create_branch(uri, "a", 1)
    (uri / branch_path("a")).unlink()
    with pytest.raises(CleanupRefusedError, match="undescribed branches: a"):
        lo.cleanup(uri, retain_versions=1, older_than=NOW)
    with pytest.raises(DatasetExistsError):
        lo.create_branch(uri, "a")
    lo.delete_branch(uri, "a")
    assert lo.cleanup(uri, retain_versions=1, older_than=NOW).versions_removed == 2


def test_a_start_that_is_gone_holds_cleanups(uri: Path) -> None:
    lo.create_branch(uri, "a", 1)
    (path,) = (path for path in (uri / "_versions").iterdir() if path.name.startswith(f"{2**64 - 2}."))
    path.unlink()
    with pytest.raises(CleanupRefusedError, match="started at version 1"):
        lo.cleanup(uri, retain_versions=1, older_than=NOW)


@pytest.mark.parametrize("operation", ["create", "delete"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_call_leaves_a_dataset_that_goes_on(tmp_path: Path, operation: str, when: str) -> None:
    for call in range(1, 60):
        path = tmp_path / f"{call}.lance"
        for number in range(2):
            lo.append(path, rows(number))
        if operation == "delete":
            lo.append(lo.create_branch(path, "a", 1), rows(5))
        store = FaultyStore(open_store(path), call, when="before" if when == "before" else "after")
        try:
            dataset = lo.Dataset.open(store)
            if operation == "create":
                lo.create_branch(dataset, "a", 1)
            else:
                lo.delete_branch(dataset, "a")
        except InjectedCrash:
            forget_leases(open_store(path))
        assert values(lo.dataset(path)) == [0, 1]
        exists = "a" in lo.dataset(path).branches
        if exists:
            assert values(lo.dataset(path, ("a", None))) == ([0] if operation == "create" else [0, 5])
        try:
            lo.delete_branch(path, "a")
        except VersionNotFoundError:
            assert not exists
        lo.create_branch(path, "a")
        lo.append(path, rows(2))
        lo.cleanup(path, retain_versions=1, older_than=NOW)
        assert values(lo.dataset(path, ("a", None))) == [0, 1]
        if not store.fired:
            return
    pytest.fail("there are more calls than expected")


@pytest.mark.parametrize("below", ["data/x", "data", "_versions/x", "_fri/x", "_deletions/x/y"])
def test_a_branch_among_the_files_of_another_one_keeps_its_own(uri: Path, below: str) -> None:
    """Its name begins with that of the other one, and goes on with that of a folder."""
    name = f"a/{below}"
    lo.append(lo.create_branch(uri, name, 2), rows(11))
    lo.delete(lo.dataset(uri, (name, None)), "i = 0")
    other = lo.create_branch(uri, "a")
    lo.append(other, rows(20))
    (uri / "tree/a/_fri/m").mkdir(parents=True)
    (uri / "tree/a/_fri/m/stable_partition.lance").write_bytes(b"x")

    def check() -> None:
        assert values(lo.dataset(uri, (name, None))) == peer_values(uri, name) == [1, 11]
        assert lo.fsck(lo.dataset(uri, (name, None)), deep=True).ok

    lo.cleanup(lo.dataset(uri, ("a", None)), older_than=NOW, retain_versions=1, delete_unverified=True)
    check()
    assert values(lo.dataset(uri, ("a", None))) == peer_values(uri, "a") == [0, 1, 2, 20]
    with pytest.raises(AlreadyExistsError):
        lo.create_branch(uri, "a", 1)
    lo.delete_branch(uri, "a")
    check()
    assert not (uri / "tree/a/_fri/m/stable_partition.lance").exists()
    assert values(lo.create_branch(uri, "a", 1)) == [0]
    check()
    lo.delete_branch(uri, name)
    assert values(lo.dataset(uri, ("a", None))) == [0]
