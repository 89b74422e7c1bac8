"""Pages that are encoded side by side: the file is the one that a single thread writes."""

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding import parallel
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1 import write as writing
from lance_ops.file.writer import FileWriter
from lance_ops.storage import Store, open_store

PACKED = {"lance-encoding:packed": "true"}


def table(rows: int = 5_000) -> pa.Table:
    rng = np.random.default_rng(4)
    numbers = rng.integers(0, 1_000, rows)
    texts = [f"{'word ' * (number % 7)}{number}" for number in numbers.tolist()]
    return pa.table(
        {
            "id": np.arange(rows),
            "text": texts,
            "few": pa.array(texts).dictionary_encode(),
            "nullable": pa.array(numbers, mask=rng.random(rows) < 0.3),
            "lists": [[number] * (number % 3) for number in numbers.tolist()],
            "struct": pa.StructArray.from_arrays([pa.array(numbers), pa.array(texts)], ["a", "b"]),
            "wide": [b"x" * 3_000 if number % 50 == 0 else b"" for number in numbers.tolist()],
        }
    )


def written(store: Store, name: str, data: pa.Table, version: str, batch_rows: int) -> bytes:
    schema = Schema.from_arrow(data.schema)
    with FileWriter(store, name, schema, version=version, page_bytes=20_000) as writer:
        for batch in data.to_batches(max_chunksize=batch_rows):
            writer.write(batch)
    return bytes(store.read(name))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("batch_rows", [700, 5_000])
@pytest.mark.parametrize("wave_bytes", [1, 50_000, 1 << 30])
def test_threads_do_not_change_the_file(tmp_path, monkeypatch, version, batch_rows, wave_bytes):
    store, data = open_store(tmp_path, {"fsync": "false"}), table()
    monkeypatch.setattr(writing, "_WAVE_BYTES", wave_bytes)
    monkeypatch.setattr(parallel, "available_threads", lambda: 1)
    alone = written(store, "alone", data, version, batch_rows)
    monkeypatch.setattr(parallel, "available_threads", lambda: 3)
    monkeypatch.setattr(writing, "_SHARE_BYTES", 1)
    assert written(store, "shared", data, version, batch_rows) == alone


def test_an_error_in_a_thread_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "available_threads", lambda: 3)
    monkeypatch.setattr(writing, "_SHARE_BYTES", 1)
    store = open_store(tmp_path, {"fsync": "false"})
    holes = pa.StructArray.from_arrays([pa.array([1, None] * 500)], ["a"])
    data = pa.table([pa.array(np.arange(1_000)), holes], names=["id", "packed"])
    schema = pa.schema([data.schema.field(0), data.schema.field(1).with_metadata(PACKED)])
    with pytest.raises(UnsupportedTypeError, match="packed struct"):
        written(store, "file", data.cast(schema), "2.1", 1_000)
    assert list(store.list("")) == []
