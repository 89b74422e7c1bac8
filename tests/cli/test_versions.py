"""tag and restore."""

import pytest

import lance_ops as lo
from tests.support.commands import lance_ops, lance_ops_json, parquet, people


@pytest.fixture
def uri(tmp_path):
    """Two versions of 10 and 15 rows."""
    uri = str(tmp_path / "people.lance")
    for start, stop in ((0, 10), (10, 15)):
        lance_ops("append", uri, parquet(tmp_path / f"{start}.parquet", people(start, stop)))
    return uri


def test_a_version_gets_a_tag_that_moves_and_goes(uri):
    assert lance_ops("tag", uri, "good", "--version", 1).stdout == "tag good names version 1\n"
    assert lance_ops_json("tag", uri) == {"good": 1}
    assert lance_ops_json("tag", uri, "good", "--move") == {"tag": "good", "version": 2}
    assert "good" in lance_ops("tag", uri).stdout
    lance_ops("tag", uri, "good", "--delete")
    assert lance_ops_json("tag", uri) == {}


def test_a_tag_that_exists_is_not_moved_by_chance(uri):
    lance_ops("tag", uri, "good")
    assert "exists" in lance_ops("tag", uri, "good", code=1).stderr


@pytest.mark.parametrize("arguments", [("--delete",), ("--move",), ("good", "--delete", "--move")])
def test_options_that_do_not_go_together_are_a_usage_error(uri, arguments):
    lance_ops("tag", uri, *arguments, code=2)


@pytest.mark.parametrize("version", ["1", "first"])
def test_an_old_version_is_restored_by_number_or_tag(uri, version):
    lance_ops("tag", uri, "first", "--version", 1)
    assert lance_ops_json("restore", uri, version)["version"] == 3
    assert lo.dataset(uri).count_rows() == 10


def test_a_restore_under_a_job_key_happens_once_and_says_what_it_did(uri):
    told = lance_ops("restore", uri, "1", "--job-key", "back").stdout
    assert told.startswith("restore: Restore of version 1 (version 2 -> 3, ")
    assert "already committed as version 3" in lance_ops("restore", uri, "1", "--job-key", "back").stdout


def test_restoring_nothing_is_an_error(uri):
    assert "there is no version 9" in lance_ops("restore", uri, 9, code=1).stderr


def test_a_branch_is_made_listed_and_removed(uri):
    assert "branch a starts as version 1" in lance_ops("branch", uri, "a", "--version", 1).stdout
    made = lance_ops_json("branch", uri, "b", "--from", "a")
    assert made["version"] == 1
    assert lance_ops_json("branch", uri) == {
        "a": {"parent": None, "parent_version": 1},
        "b": {"parent": "a", "parent_version": 1},
    }
    assert "version 1 of a" in lance_ops("branch", uri).stdout
    lance_ops("delete", made["uri"], "id < 5")
    assert (lo.dataset(uri, ("b", None)).count_rows(), lo.dataset(uri).count_rows()) == (5, 15)
    assert "branch 'b'" in lance_ops("branch", uri, "a", "--delete", code=1).stderr
    for name in ("b", "a"):
        lance_ops("branch", uri, name, "--delete")
    assert lance_ops_json("branch", uri) == {}


@pytest.mark.parametrize(
    "arguments", [("--delete",), ("--version", 1), ("a", "--from", "main", "--version", "t")]
)
def test_options_of_branches_that_do_not_go_together_are_a_usage_error(uri, arguments):
    lance_ops("branch", uri, *arguments, code=2)


def test_a_tag_or_branch_that_is_not_there_is_no_damage_and_those_that_are_there_are_listed(uri):
    refused = lance_ops("restore", uri, "nosuchtag", code=1).stderr
    assert "there is no tag 'nosuchtag'" in refused
    assert "the dataset has no tags" in refused
    for name in ("before", "after"):
        lance_ops("tag", uri, name, "--version", "1")
    for arguments in (("restore", uri, "nosuchtag"), ("query", uri, "--version", "nosuchtag")):
        refused = lance_ops(*arguments, code=1).stderr
        assert "there is no tag 'nosuchtag'" in refused
        assert "its tags: after, before" in refused
        assert "fsck" not in refused
    refused = lance_ops("branch", uri, "trial", "--from", "nosuch", code=1).stderr
    assert "the dataset has no branches" in refused
    assert "fsck" not in refused
