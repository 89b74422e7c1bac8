"""A table of an early release, one of whose columns lies in a dataset of its own."""

import pickle
import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptManifestError, UnsupportedError
from lance_ops.table.manifest.file.write import encode_manifest

WRITTEN = Path(__file__).parents[2] / "fixtures" / "blob-dataset-0.20.0"


@pytest.fixture
def uri(tmp_path) -> str:
    return str(shutil.copytree(WRITTEN, tmp_path / "t"))


def blob(number: int) -> bytes:
    return b"blob%d" % number * (number % 4)


def expected(*numbers: int) -> list[dict]:
    return [{"id": number, "b": blob(number), "s": str(number)} for number in numbers]


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        (1, range(10)),
        (2, range(15)),
        (3, [number for number in range(15) if number != 3]),
        (5, [number for number in range(15) if number != 3]),
    ],
)
def test_every_version_has_its_blobs(uri, version, numbers):
    dataset = lo.dataset(uri, version)
    assert dataset.to_table().to_pylist() == expected(*numbers)
    assert dataset.to_table(["b"])["b"].to_pylist() == [blob(number) for number in numbers]
    small = dataset.to_batches(batch_size=3)
    assert pa.Table.from_batches(small).to_pylist() == expected(*numbers)


def test_blobs_are_found_by_filter_and_by_row(uri):
    dataset = lo.dataset(uri)
    assert dataset.to_table(filter="id in (2, 13)").to_pylist() == expected(2, 13)
    assert dataset.to_table(["id"], filter="b = X'626c6f6231'")["id"].to_pylist() == [1]
    assert dataset.take([12, 0, 3, 0]).to_pylist() == expected(13, 0, 4, 0)
    ids = dataset.to_table(["id"], with_row_id=True)["_rowid"].to_pylist()
    assert dataset.take(ids[-2:], by="id").to_pylist() == expected(13, 14)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.take([1], ["b"])["b"].to_pylist() == [blob(1)]
    assert dataset.count_rows("b is null") == 0


def test_what_would_part_rows_from_their_blobs_is_refused(uri, tmp_path):
    clone = str(tmp_path / "clone")
    for change in (
        lambda: lo.delete(uri, "id = 1"),
        lambda: lo.compact(uri),
        lambda: lo.append(uri, lo.dataset(uri).to_table()),
        lambda: lo.deep_clone(uri, clone),
        lambda: lo.shallow_clone(uri, clone),
        lambda: lo.create_branch(uri, "b"),
    ):
        with pytest.raises(UnsupportedError, match="blobs"):
            change()
    assert not Path(clone).exists() or not list(Path(clone).iterdir())
    lo.cleanup(uri, older_than=timedelta(0))
    assert lo.dataset(uri).to_table().num_rows == 14


def test_blobs_that_are_gone_are_not_taken_for_nulls(uri):
    for manifest in Path(uri, "_blobs", "_versions").iterdir():
        manifest.unlink()
    dataset = lo.dataset(uri)
    assert dataset.to_table(["id", "s"]).num_rows == 14
    with pytest.raises(CorruptManifestError, match="blob dataset cannot be read"):
        dataset.to_table()
    shutil.copytree(WRITTEN / "_blobs", Path(uri, "_blobs"), dirs_exist_ok=True)
    # The first version of the blob dataset has fewer rows.
    (newest,) = Path(uri, "_blobs", "_versions").glob("d*")
    first = lo.dataset(uri + "/_blobs", 1).manifest
    number = int(newest.name[1:].removesuffix(".manifest"))
    newest.write_bytes(encode_manifest(first.replace(version=number)))
    with pytest.raises(CorruptManifestError, match="no row with id 10"):
        lo.dataset(uri).to_table()
