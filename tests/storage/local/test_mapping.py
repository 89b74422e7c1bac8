"""Whole files in the address space."""

import gc
import os
from pathlib import Path

import pytest

from lance_ops.storage.local.mapping import map_whole


def test_a_mapped_file_has_its_bytes_and_outlives_its_name(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(range(256)) * 40)
    gc.collect()
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    part = map_whole(str(file)).slice(256, 512)
    file.unlink()
    gc.collect()
    assert part.to_pybytes() == bytes(range(256)) * 2
    if before is not None:
        # Connections of other tests may close meanwhile.
        assert len(os.listdir("/proc/self/fd")) <= before


def test_what_cannot_be_mapped_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("missing", "empty"):
        with pytest.raises(OSError, match=name):
            map_whole(str(tmp_path / name))
