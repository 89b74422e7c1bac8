"""What a commit wrote need not be decoded again, and says what decoding says."""

import multiprocessing
import shutil

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops import cache
from lance_ops.storage import open_store
from lance_ops.table.manifest.file import read as manifest_file
from lance_ops.table.manifest.file.read import decode_manifest
from lance_ops.table.manifest.file.recurring import RecurringManifests, recurring


def rows(start: int, count: int = 10) -> pa.Table:
    values = np.arange(start, start + count)
    return pa.table({"x": values, "s": [f"row {value}" for value in values]})


@pytest.fixture
def decoded(monkeypatch) -> list[str]:
    """Paths of the manifests that are decoded."""
    paths = []

    def decode(data, *, path):
        paths.append(path)
        return decode_manifest(data, path=path)

    monkeypatch.setattr(manifest_file, "decode_manifest", decode)
    return paths


OPERATIONS = {
    "append": lambda uri: lo.append(uri, rows(100)),
    "append under a job key": lambda uri: lo.append(uri, rows(200), job_key="job"),
    "delete of some rows": lambda uri: lo.delete(uri, "x % 7 = 3"),
    "delete of a fragment": lambda uri: lo.delete(uri, "x < 10"),
    "update": lambda uri: lo.update(uri, {"s": "'other'"}, where="x % 5 = 2"),
    "merge": lambda uri: lo.merge_insert(uri, rows(5), on=["x"], when_matched="update_all"),
    "compaction": lambda uri: lo.compact(uri),
    "index": lambda uri: lo.create_index(uri, "x"),
    "setting": lambda uri: lo.update_config(uri, {"a": "b"}),
    "column": lambda uri: lo.add_columns(uri, {"y": "x * 2"}),
    "drop": lambda uri: lo.drop_columns(uri, ["s"]),
    "overwrite": lambda uri: lo.write_dataset(rows(0), uri, mode="overwrite"),
    "restore": lambda uri: lo.restore(uri, 2),
}


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_kept_of_a_commit_is_what_its_file_says(tmp_path, name, stable):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(0, 40), uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    lo.append(uri, rows(40))
    lo.create_index(uri, "s")
    for step in (OPERATIONS[name], lambda uri: lo.delete(uri, "x % 11 = 1")):
        step(uri)
        location = lo.dataset(uri).location
        data = open_store(uri).read(location.path).to_pybytes()
        path = f"{open_store(uri).uri}/{location.path}"
        kept = recurring.get(path, data)
        assert kept == decode_manifest(data, path=path)


@pytest.mark.parametrize("name", ["append", "delete of some rows"])
def test_small_commits_decode_no_manifest_that_this_process_wrote(tmp_path, decoded, name):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(0, 40), uri)
    lo.append(uri, rows(40))
    decoded.clear()
    for _ in range(3):
        OPERATIONS[name](uri)
        lo.append(uri, rows(0))
    assert decoded == []


def test_another_file_under_the_same_name_is_read(tmp_path):
    uri, other = str(tmp_path / "t.lance"), str(tmp_path / "other.lance")
    for path, start in ((uri, 0), (other, 1000)):
        lo.write_dataset(rows(start), path)
        lo.append(path, rows(start + 10))
    assert lo.dataset(uri).to_table()["x"].to_pylist() == list(range(20))
    shutil.rmtree(uri)
    shutil.copytree(other, uri)
    assert lo.dataset(uri).to_table()["x"].to_pylist() == list(range(1000, 1020))


def test_few_and_small_ones_are_kept(tmp_path):
    lo.write_dataset(rows(0), str(tmp_path / "t.lance"))
    version = lo.dataset(str(tmp_path / "t.lance")).manifest
    kept = RecurringManifests()
    for number in range(20):
        kept.keep(str(number), b"same", version)
    kept.keep("large", bytes(2 << 20), version)
    found = [str(number) for number in range(20) if kept.get(str(number), b"same") is version]
    assert found == [str(number) for number in range(12, 20)]
    assert kept.get("19", b"other") is None
    assert kept.get("large", bytes(2 << 20)) is None


def test_a_fork_opens_a_dataset_while_a_thread_of_its_parent_looks_for_a_manifest(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(0), uri)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(lo.dataset(uri).count_rows()), daemon=True)
    with cache._lock:
        child.start()
    try:
        assert answers.get(timeout=30) == 10
    finally:
        child.kill()
        child.join()
