"""history, health and fsck."""

import json
from pathlib import Path

import pytest

import lance_ops as lo
from tests.support.commands import lance_ops, lance_ops_json, parquet, people


@pytest.fixture
def uri(tmp_path):
    """Versions: create, append under a job key, delete, index."""
    uri = str(tmp_path / "people.lance")
    lance_ops("append", uri, parquet(tmp_path / "a.parquet", people(0, 60)))
    lance_ops("append", uri, parquet(tmp_path / "b.parquet", people(60, 100)), "--job-key", "b")
    lance_ops("delete", uri, "id < 20")
    lance_ops("index", uri, "id")
    return uri


def test_history_is_newest_first_with_what_each_version_did(uri):
    lines = lance_ops("history", uri).stdout.splitlines()
    assert lines[0] == uri
    assert lines[1].split() == [
        "version",
        "time",
        "(UTC)",
        "rows",
        "deleted",
        "fragments",
        "size",
        "job",
        "what",
    ]
    assert [line.split()[0] for line in lines[2:]] == ["4", "3", "2", "1"]
    assert lines[2].endswith("CreateIndex of id_idx")
    assert lines[3].endswith("Delete in fragment 0 where id < 20")
    assert lines[3].split()[3:6] == ["80", "20", "2"]
    assert lines[4].endswith("Append of 40 rows in 1 fragment")


def test_history_shows_as_many_as_asked(uri):
    assert len(lance_ops("history", uri, "--limit", 2).stdout.splitlines()) == 4
    values = lance_ops_json("history", uri, "--limit", 3)
    assert (values["operation"], values["uri"]) == ("history", uri)
    assert [entry["version"] for entry in values["versions"]] == [4, 3, 2]
    append = values["versions"][2]
    assert append["operation"] == "Append"
    assert append["size"]["rows"] == 100
    assert "b" in append["properties"].values()
    assert append["timestamp"].endswith("+00:00")


def test_health_says_what_is_due_and_why(uri):
    text = lance_ops("health", uri).stdout
    assert text.startswith(f"{uri} at version 4\n")
    lines = {line.split("  ")[0]: line.split(None, 1) for line in text.splitlines() if line}
    assert lines["deleted rows"][1].endswith("20 (20.0% of those stored)")
    assert (
        lines["compact"][1].startswith("yes  2 small fragments (limit 20), 20.0%")
        or "yes" in lines["compact"][1]
    )
    assert lines["index"][1].startswith("no")
    values = lance_ops_json("health", uri)
    assert (values["rows"], values["deleted_rows"], values["indices"]) == (80, 20, 1)
    assert values["maintenance"]["compact"]["due"] is True
    assert values["maintenance"]["cleanup"] == {
        "due": False,
        "state": "healthy",
        "reason": "4 versions (limit 100)",
    }


def test_a_sound_version_passes_fsck(uri):
    assert lance_ops("fsck", uri).stdout.startswith("fsck: version 4 is sound: ")
    values = lance_ops_json("fsck", uri, "--deep", "--version", 2)
    assert (values["operation"], values["ok"], values["version"], values["findings"]) == ("fsck", True, 2, [])


def test_a_lost_file_fails_fsck_with_code_1_and_its_name(uri):
    lost = min(Path(uri, "data").iterdir())
    lost.unlink()
    result = lance_ops("fsck", uri, code=1)
    assert "is damaged" in result.stdout
    assert f"data/{lost.name}" in result.stdout
    assert result.stderr == ""
    values = lance_ops_json("fsck", uri, code=1)
    assert values["ok"] is False
    assert (values["findings"][0]["check"], values["findings"][0]["severity"]) == ("files_present", "error")


def test_fsck_opens_a_tag_and_refuses_a_version_that_is_not_there(uri):
    from lance_ops.table.history.refs import create_tag

    create_tag(lo.dataset(uri).store, "before", 2)
    assert "version 2 is sound" in lance_ops("fsck", uri, "--version", "before").stdout
    for version in ("99", "after"):
        error = json.loads(lance_ops("fsck", uri, "--version", version, "--json", code=1).stderr)
        assert error["error"] == "VersionNotFoundError"


def test_a_damaged_data_file_ends_a_delete_with_the_file_s_name(uri):
    data = min(Path(uri, "data").iterdir())
    data.write_bytes(data.read_bytes()[:50])
    result = lance_ops("delete", uri, "score = 1", code=1)
    assert data.name in result.stderr
    assert "nothing was committed" in result.stderr
    assert "Traceback" not in result.stderr
    assert f"`lance-ops fsck {uri} --deep`" in result.stderr
    assert f"`lance-ops restore {uri} VERSION`" in result.stderr
    assert (
        "lance-ops fsck" in json.loads(lance_ops("delete", uri, "score = 1", "--json", code=1).stderr)["hint"]
    )
    assert lo.dataset(uri).version == 4


def test_a_conflict_is_shown_with_both_transactions(uri, monkeypatch):
    from lance_ops.errors import RetryableCommitConflictError

    def collide(*arguments, **options):
        raise RetryableCommitConflictError(
            "a delete stands in the way", ours="Rewrite of 1", theirs="Delete in 1", version=5
        )

    monkeypatch.setattr("lance_ops.maintenance.compact.operation.compact", collide)
    text = lance_ops("compact", uri, code=1).stderr
    assert text == "error: a delete stands in the way (ours: Rewrite of 1; theirs: Delete in 1)\n"
    error = json.loads(lance_ops("compact", uri, "--json", code=1).stderr)
    assert (error["ours"], error["version"], error["retryable"]) == ("Rewrite of 1", 5, True)
