"""A newest version that is damaged: cleanup refuses, fsck reports, and a restore leads out of it."""

import struct
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import CleanupRefusedError, CorruptManifestError, LanceOpsError
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.pb import table_pb2
from tests.support.interop import our_dataset, rows, xs
from tests.support.wire import length_prefixed, manifest_position

Damage = Callable[[Path], None]


def edited(change: Callable[[table_pb2.Manifest], object]) -> Damage:
    """Damage one field of a manifest that can be parsed all the same."""

    def damage(manifest: Path) -> None:
        data = manifest.read_bytes()
        position = manifest_position(data)
        message = table_pb2.Manifest.FromString(length_prefixed(data, position))
        change(message)
        body = message.SerializeToString()
        manifest.write_bytes(
            data[:position] + struct.pack("<I", len(body)) + body + struct.pack("<q", position) + data[-8:]
        )

    return damage


def cut(share: float) -> Damage:
    def damage(manifest: Path) -> None:
        data = manifest.read_bytes()
        manifest.write_bytes(data[: int(len(data) * share)])

    return damage


def double_an_id(message: table_pb2.Manifest) -> None:
    message.fragments[1].id = message.fragments[0].id


def lower_the_highest_id(message: table_pb2.Manifest) -> None:
    message.max_fragment_id = 0


def delete_more_rows_than_there_are(message: table_pb2.Manifest) -> None:
    message.fragments[0].deletion_file.num_deleted_rows = 10_000


def name_a_column_twice(message: table_pb2.Manifest) -> None:
    message.fragments[0].files.add().CopyFrom(message.fragments[0].files[0])


def half_set_flag(message: table_pb2.Manifest) -> None:
    message.reader_feature_flags |= 1 << 8


def forget_the_time(message: table_pb2.Manifest) -> None:
    message.ClearField("timestamp")


def break_the_index_section(message: table_pb2.Manifest) -> None:
    message.index_section = 1 << 40


DAMAGES: dict[str, Damage] = {
    "doubled fragment id": edited(double_an_id),
    "highest id too low": edited(lower_the_highest_id),
    "more rows deleted than there are": edited(delete_more_rows_than_there_are),
    "a column in two files": edited(name_a_column_twice),
    "half a flag": edited(half_set_flag),
    "no time": edited(forget_the_time),
    "index section out of the file": edited(break_the_index_section),
    "cut in half": cut(0.5),
    "empty": cut(0),
    "other bytes": lambda manifest: manifest.write_bytes(b"x" * 500),
}


@pytest.fixture(params=DAMAGES.values(), ids=DAMAGES.keys())
def damaged(request, tmp_path: Path) -> Path:
    """Three good versions, the first without a file in common with the newest, which is damaged."""
    path = tmp_path / "t.lance"
    our_dataset(path, [10])
    lo.write_dataset(rows(100, 110), path, mode="overwrite")
    lo.append(path, rows(110, 120), job_key="second")
    lo.delete(path, "x = 100")
    request.param(min((path / "_versions").glob("*.manifest")))
    return path


def files(path: Path) -> list[str]:
    return sorted(str(file) for file in path.rglob("*") if file.is_file())


def test_cleanup_refuses_and_removes_nothing(damaged: Path) -> None:
    before = files(damaged)
    for options in ({"retain_versions": 1}, {"retain_versions": 1, "dry_run": True}):
        with pytest.raises(CleanupRefusedError, match="newest version, 4, is damaged") as failure:
            lo.cleanup(damaged, **options)
        assert "restore" in str(failure.value.hint)
        assert failure.value.path is not None
    assert files(damaged) == before


def test_fsck_reports_it(damaged: Path) -> None:
    result = lo.fsck(damaged)
    assert not result.ok
    assert result.version == 4
    assert result.of("manifest_valid") or result.of("fragments_consistent")
    assert lo.fsck(damaged, 3).ok


def test_fsck_names_a_version_that_opens(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10, 10])
    newest, second, _ = sorted((path / "_versions").glob("*.manifest"))
    cut(0.5)(newest)
    cut(0.5)(second)
    assert "version 1 opens, and restore makes it the newest one" in str(lo.fsck(path))
    assert "no older version" not in str(lo.fsck(path))


@pytest.mark.peer
@pytest.mark.parametrize("version", [1, 3])
def test_a_restore_leads_out_of_it(damaged: Path, version: int) -> None:
    expected = list(range(10)) if version == 1 else list(range(100, 120))
    done = restore(str(damaged), version)
    assert done.version == 5
    assert xs(damaged) == expected
    # What the damaged version gave out is not given out again.
    assert done.dataset.manifest.max_fragment_id == 2
    lo.append(damaged, rows(200, 210))
    lance.write_dataset(rows(210, 220), str(damaged), mode="append")
    assert xs(damaged) == [*expected, *range(200, 220)]
    # Version 1 has no record of jobs: before version 3 is removed, a new one takes its job into a record.
    assert lo.cleanup(damaged, retain_versions=1).versions_removed == (7 if version == 1 else 6)
    lo.compact(damaged)
    assert xs(damaged) == [*expected, *range(200, 220)]
    assert lo.fsck(damaged, deep=True).ok
    # The job of version 3 counts where that was restored, and was undone where the first version was.
    again = lo.append(damaged, rows(110, 120), job_key="second")
    assert again.already_committed is (version == 3)


def test_the_damaged_version_itself_cannot_be_restored(damaged: Path) -> None:
    before = files(damaged)
    try:
        restore(str(damaged), 4)
    except LanceOpsError:
        assert files(damaged) == before
    else:
        # Only where it opens: a scan of it is refused, and so is the next cleanup.
        with pytest.raises(CleanupRefusedError):
            lo.cleanup(damaged, retain_versions=1)


def test_only_a_version_that_was_restored_over_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10, 10])
    newest, second, _ = sorted((path / "_versions").glob("*.manifest"))
    cut(0.5)(newest)
    restore(str(path), 2)
    cut(0.5)(second)
    before = files(path)
    with pytest.raises(CorruptManifestError, match=second.name):
        lo.cleanup(path, retain_versions=1)
    assert files(path) == before


@pytest.mark.parametrize("pattern", ["data/*.lance", "_deletions/*"])
def test_a_newest_version_that_misses_files_is_not_trusted(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10])
    lo.write_dataset(rows(100, 110), path, mode="overwrite")
    lo.delete(path, "x = 100")
    kept = {f"data/{file.path}" for file in lo.dataset(path, 1).fragments[0].files}
    lost = next(file for file in path.glob(pattern) if file.relative_to(path).as_posix() not in kept)
    lost.unlink()
    with pytest.raises(CleanupRefusedError, match=lost.name):
        lo.cleanup(path, retain_versions=1)
    restore(str(path), 1)
    assert lo.cleanup(path, retain_versions=1).versions_removed == 3
    assert xs(path) == list(range(10))


def test_an_index_that_misses_files_does_not_stop_a_cleanup(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10])
    lo.create_index(path, "x")
    next(path.glob("_indices/*/*")).unlink()
    assert lo.cleanup(path, retain_versions=1).versions_removed == 2


def test_a_lost_file_of_a_version_without_row_counts_is_reported(tmp_path: Path) -> None:
    """Writers before 0.8 left the counts to the files, so that even opening the rows needs these."""

    def forget_the_counts(message: table_pb2.Manifest) -> None:
        for fragment in message.fragments:
            fragment.ClearField("physical_rows")
        message.ClearField("writer_version")

    path = tmp_path / "t.lance"
    our_dataset(path, [10, 10])
    edited(forget_the_counts)(min((path / "_versions").glob("*.manifest")))
    lost = next((path / "data").glob("*.lance"))
    lost.unlink()
    for deep in (False, True):
        found = lo.fsck(path, deep=deep)
        assert [finding.path for finding in found.of("files_present")] == [f"data/{lost.name}"]
    with pytest.raises(CleanupRefusedError):
        lo.cleanup(path, retain_versions=1)
