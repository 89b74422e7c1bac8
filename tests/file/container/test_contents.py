"""Opening a file by its last bytes alone tells the same as opening it by requests."""

import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError
from lance_ops.file.container.contents import decode_contents, read_contents
from lance_ops.file.container.read import FOOTER_SIZE
from lance_ops.file.io.fetch import run
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store


@pytest.fixture
def data():
    table = pa.table({"a": range(1000), "b": [f"text {number}" for number in range(1000)]})
    store = open_store("memory://opened-by-their-ends")
    with FileWriter(store, "f.lance", Schema.from_arrow(table.schema)) as writer:
        writer.write(table)
        writer.finish()
    return store.read("f.lance").to_pybytes()


def by_requests(data):
    def read(requests):
        return [pa.py_buffer(data[offset : offset + length]) for offset, length in requests]

    return run(read_contents(data[-FOOTER_SIZE:], len(data), "f.lance"), read)


def test_every_end_tells_all_or_nothing(data):
    expected = by_requests(data)
    found = [
        decode_contents(memoryview(data)[-length:], len(data), "f.lance")
        for length in range(FOOTER_SIZE, len(data) + 1)
    ]
    told = [contents is not None for contents in found]
    # Once the bytes reach far enough, more of them change nothing.
    assert told == sorted(told)
    assert not told[0]
    assert told[-1]
    assert all(contents == expected for contents in found if contents is not None)


def test_a_damaged_end_is_refused(data):
    damaged = data[:-1] + b"X"
    with pytest.raises(CorruptFileError):
        decode_contents(memoryview(damaged), len(damaged), "f.lance")
