"""Fsck: a sound dataset passes, and every kind of damage is found and named."""

import json
from pathlib import Path

import pytest

import lance_ops as lo
from lance_ops.maintenance.fsck.findings import FsckResult, Severity
from lance_ops.maintenance.fsck.operation import CHECKS
from lance_ops.operations import Append
from tests.support.interop import our_dataset, peer_dataset, rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two fragments, one with deleted rows, and an index."""
    uri = tmp_path / "t.lance"
    our_dataset(uri, [50, 50])
    lo.delete(uri, "x < 5")
    lo.create_index(uri, "x")
    return uri


def errors(result: FsckResult) -> list[tuple[str, str]]:
    return [(finding.check, finding.message) for finding in result.findings]


def test_a_sound_dataset_passes_every_check(path: Path) -> None:
    result = lo.fsck(path, deep=True)
    assert result.ok
    assert result.findings == ()
    assert result.checks == (*CHECKS, "rows_match")
    assert result.files_checked == 5
    assert "is sound" in str(result)
    assert json.loads(json.dumps(result.to_dict()))["ok"] is True


def test_damage_comes_with_the_commands_that_go_back(path: Path) -> None:
    next(path.glob("data/*.lance")).unlink()
    result = lo.fsck(path)
    assert f"`lance-ops restore {path} VERSION`" in result.remedy
    assert str(result).endswith(f"repair: {result.remedy}")
    assert result.to_dict()["remedy"] == result.remedy
    # Also where no version opens.
    for manifest in path.glob("_versions/*.manifest"):
        manifest.write_bytes(b"no manifest")
    assert "lance-ops restore" in lo.fsck(path).remedy


def test_a_damaged_index_names_its_own_command_and_no_restore(path: Path) -> None:
    damaged = next(path.glob("_indices/*/page_lookup.lance"))
    damaged.write_bytes(bytes(damaged.stat().st_size))
    result = lo.fsck(path)
    assert {finding.check for finding in result.findings} == {"indices_readable"}
    assert not result.ok
    assert result.remedy == ""
    assert "repair:" not in str(result)


def test_what_is_sound_has_no_remedy(path: Path) -> None:
    assert lo.fsck(path).remedy == ""


@pytest.mark.peer
def test_what_the_peer_writes_is_sound(tmp_path: Path) -> None:
    peer_dataset(tmp_path / "t.lance", [10, 10])
    assert lo.fsck(tmp_path / "t.lance", deep=True).ok


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("data/*.lance", "cannot find a data file of fragment"),
        ("_deletions/*", "cannot find the deletion file of fragment 0"),
        ("_indices/*/page_data.lance", "cannot find a file of index 'x_idx'"),
    ],
)
def test_a_lost_file_is_found(path: Path, pattern: str, what: str) -> None:
    lost = next(path.glob(pattern))
    lost.unlink()
    result = lo.fsck(path)
    assert not result.ok
    found = [finding for finding in result.of("files_present") if finding.severity is Severity.ERROR]
    assert [finding.path for finding in found] == [lost.relative_to(path).as_posix()]
    assert found[0].message.startswith(what)
    assert "is damaged" in str(result)


def test_a_file_of_another_size_is_found(path: Path) -> None:
    file = next(path.glob("data/*.lance"))
    file.write_bytes(file.read_bytes() + b"x")
    (finding,) = lo.fsck(path).of("files_present")
    assert "the manifest records" in finding.message


def test_a_damaged_deletion_file_is_found(path: Path) -> None:
    file = next(path.glob("_deletions/*"))
    file.write_bytes(file.read_bytes()[:-20])
    (finding,) = lo.fsck(path).of("deletion_vectors_valid")
    assert "deletions of fragment 0" in finding.message


def test_a_data_file_of_two_fragments_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What older releases let pass.
    monkeypatch.setattr("lance_ops.table.transaction.operations.checks.check_once", lambda fragments: None)
    monkeypatch.setattr("lance_ops.table.transaction.operations.rows.check_once", lambda fragments: None)
    parts = lo.write_fragments(rows(100, 103), path)
    lo.commit(path, Append(parts + parts), lo.dataset(path).version)
    (finding,) = lo.fsck(path).of("fragments_consistent")
    assert finding.message.startswith("fragments 2 and 3 share a data file")
    assert finding.path == parts[0].files[0].path
    assert finding.severity is Severity.ERROR


def test_a_damaged_data_file_is_found_when_files_are_opened(path: Path) -> None:
    file = next(path.glob("data/*.lance"))
    data = bytearray(file.read_bytes())
    data[-8:] = b"\xff" * 8
    file.write_bytes(bytes(data))
    assert lo.fsck(path).ok
    result = lo.fsck(path, deep=True)
    assert [check for check, _ in errors(result)] == ["rows_match"]


def test_a_gap_in_the_history_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [5] * 5)
    sorted((path / "_versions").glob("*.manifest"))[2].unlink()
    result = lo.fsck(path)
    assert result.ok
    (finding,) = result.of("history_contiguous")
    assert finding.severity is Severity.WARNING
    assert "versions 3 to 3 are missing" in finding.message


def test_history_that_cleanup_shortened_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [5] * 5)
    lo.cleanup(path, retain_versions=2)
    assert lo.fsck(path).findings == ()


def test_an_old_version_can_be_checked(path: Path) -> None:
    assert lo.fsck(path, 2).version == 2


def test_an_unreadable_manifest_is_a_finding(path: Path) -> None:
    manifest = min((path / "_versions").glob("*.manifest"))
    manifest.write_bytes(manifest.read_bytes()[:-3])
    (finding,) = lo.fsck(path).findings
    assert finding.severity is Severity.ERROR
    assert finding.path is not None
    assert finding.path.endswith(manifest.name)
