"""How often an operation flushes something to the disk, on local files."""

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

import lance_ops as lo
from tests.support.flushes import FlushSeam


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


class Flushes:
    """Counts what is flushed to the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self._lock = threading.Lock()
        FlushSeam(monkeypatch, after=self._count)

    def _count(self, path: str) -> None:
        with self._lock:
            self.calls += 1


@pytest.fixture
def uri(tmp_path) -> str:
    """A table of four fragments whose folders are all there."""
    made = str(tmp_path / "t.lance")
    lo.append(made, rows(*range(40)), max_rows_per_file=10)
    lo.delete(made, "x % 10 = 9")
    lo.append(made, rows(100), job_key="first")
    return made


# Operation, and its flushes.
BOUNDS: dict[str, tuple[Callable[[str], object], int]] = {
    # Data, transaction, their two folders; the manifest and its folder.
    "append": (lambda uri: lo.append(uri, rows(1)), 6),
    "append of four files": (lambda uri: lo.append(uri, rows(1, 2, 3, 4), max_rows_per_file=1), 9),
    "append under a job key": (lambda uri: lo.append(uri, rows(1), job_key="new"), 6),
    "overwrite": (lambda uri: lo.write_dataset(rows(1), uri, mode="overwrite"), 6),
    "delete in four fragments": (lambda uri: lo.delete(uri, "x % 10 = 1"), 9),
    "delete in four fragments under a job key": (
        lambda uri: lo.delete(uri, "x % 10 = 1", job_key="new"),
        9,
    ),
    "replacement": (lambda uri: lo.replace_where(uri, rows(1), "x = 1"), 8),
    # Pages, their lookup, each with their folder; two folders above that are new; transaction, manifest.
    "new index": (lambda uri: lo.create_index(uri, "x"), 10),
    "setting": (lambda uri: lo.update_config(uri, {"a": "b"}), 4),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_an_operation_flushes_each_file_and_folder_once(uri, monkeypatch, name):
    operation, bound = BOUNDS[name]
    flushes = Flushes(monkeypatch)
    operation(uri)
    assert flushes.calls == bound


def test_the_first_commit_of_a_table_flushes_the_folders_above_it(tmp_path, monkeypatch):
    flushes = Flushes(monkeypatch)
    lo.append(str(tmp_path / "t.lance"), rows(1))
    # The folder above and that of the table, too.
    assert flushes.calls == 8


def test_the_first_job_key_of_a_table_flushes_its_folders(tmp_path, monkeypatch):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, rows(1))
    flushes = Flushes(monkeypatch)
    lo.append(uri, rows(2), job_key="first")
    assert flushes.calls == 11
