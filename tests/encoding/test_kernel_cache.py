"""Compiled loops are kept, in a folder that nobody else can write to, as long as no source changes."""

from pathlib import Path

import pytest

from lance_ops.encoding import kernel_cache
from lance_ops.encoding.kernel_cache import VARIABLE, forget_outdated, prepare_cache


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Two rooms with a kernel and the helper that it has from the other."""
    for name in ("bits/loop.py", "words.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path


def compiled(package: Path) -> Path:
    kept = package / "bits" / "__pycache__" / "loop.x-1.py311.nbi"
    kept.parent.mkdir(exist_ok=True)
    kept.touch()
    return kept


def test_what_other_sources_were_compiled_to_is_removed(package):
    forget_outdated(package)
    kept = compiled(package)
    forget_outdated(package)
    assert kept.exists()
    # The kernel that was compiled is as before: numba alone would go on with it.
    (package / "words.py").write_text("x = 2\n")
    forget_outdated(package)
    assert not kept.exists()
    kept = compiled(package)
    forget_outdated(package)
    assert kept.exists()
    assert len(list(package.rglob("sources-*"))) == 1


def test_what_was_kept_before_there_were_marks_is_removed(package):
    kept = compiled(package)
    forget_outdated(package)
    assert not kept.exists()


def test_a_package_that_is_in_no_folder_keeps_nothing(tmp_path):
    forget_outdated(tmp_path / "packages.zip" / "kernels")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_asked_for_is_left_alone(package, monkeypatch):
    monkeypatch.setenv(VARIABLE, "/somewhere")
    kept = compiled(package)
    prepare_cache(package)
    assert kept.exists()


def test_a_cache_that_others_could_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = kernel_cache._shared_cache()
    assert kept.parent == tmp_path
    assert kept.stat().st_mode & 0o777 == 0o700
    assert kernel_cache._shared_cache() == kept
    kept.chmod(0o777)
    assert kernel_cache._shared_cache() != kept
