"""The folder for Spark's support files."""

import os
import tempfile
from pathlib import Path

import pytest

from lance_ops.errors import StorageError
from lance_ops.spark.cache import cache_root, publish_tree


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, as far as the cache knows."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_xdg_cache_home_goes_before_home(tmp_path: Path) -> None:
    variables = {"XDG_CACHE_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path / "home")}
    assert cache_root(variables) == tmp_path / "xdg" / "lance-ops"
    assert cache_root({"HOME": str(tmp_path / "home")}) == tmp_path / "home" / ".cache" / "lance-ops"


@pytest.mark.parametrize(
    "variables", [{}, {"HOME": ""}, {"HOME": "/proc/nowhere"}, {"XDG_CACHE_HOME": "relative"}]
)
def test_without_a_usable_home_it_is_the_temporary_folder(temporary: Path, variables: dict[str, str]) -> None:
    assert cache_root(variables) == temporary / f"lance-ops-{os.getuid()}"


def test_a_folder_that_others_can_write_to_is_refused(temporary: Path) -> None:
    trap = temporary / f"lance-ops-{os.getuid()}"
    trap.mkdir()
    trap.chmod(0o777)
    with pytest.raises(StorageError, match=r"writable by other users.*XDG_CACHE_HOME"):
        cache_root({})


def test_a_tree_is_made_once_and_found_again(tmp_path: Path) -> None:
    entries: dict[str, Path | str] = {"bin/run": "#!/bin/sh\n", "data": Path("/usr"), "note": "text"}
    made = publish_tree("kind", entries, tmp_path)
    before = (made / "bin" / "run").stat().st_ino
    assert publish_tree("kind", entries, tmp_path) == made
    assert (made / "bin" / "run").stat().st_ino == before
    assert os.access(made / "bin" / "run", os.X_OK)
    assert not (made / "note").stat().st_mode & 0o111
    assert (made / "data").readlink() == Path("/usr")
    assert list(tmp_path.iterdir()) == [made]


def test_other_contents_get_another_folder(tmp_path: Path) -> None:
    assert publish_tree("kind", {"a": "1"}, tmp_path) != publish_tree("kind", {"a": "2"}, tmp_path)


def test_a_half_eaten_tree_is_made_anew(tmp_path: Path) -> None:
    entries: dict[str, Path | str] = {"a": "1", "b": "2"}
    made = publish_tree("kind", entries, tmp_path)
    (made / "b").unlink()
    assert publish_tree("kind", entries, tmp_path) == made
    assert (made / "b").read_text() == "2"
    assert list(tmp_path.iterdir()) == [made]


def test_a_cache_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="support files"):
        publish_tree("kind", {"a": "1"}, tmp_path / "file")
