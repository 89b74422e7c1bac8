"""0.1: every type, null pattern and size that the peer writes, read as the peer reads it.

That age keeps no nulls of numbers and of lists, which is why not the values that were given are expected.
"""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnsupportedVersionError
from lance_ops.file.reader import FileReader
from lance_ops.storage import open_store
from tests.file.matrix.cells import (
    LARGE,
    LARGE_TYPES,
    SIZES,
    TYPES,
    assert_same,
    build_table,
    some_ranges,
    some_rows,
    type_id,
)
from tests.support.arrays import ONLY_2_2_TYPES
from tests.support.peer_panics import panics_as_errors

pytestmark = pytest.mark.peer

GROUP = 600
REFUSED = [
    pa.dictionary(pa.int32(), pa.float64()),
    pa.dictionary(pa.int8(), pa.bool_()),
    # Written, but the peer names the items otherwise when it reads them, and stumbles over that.
    pa.list_(pa.field("element", pa.int64(), nullable=False)),
    pa.struct([]),
    *ONLY_2_2_TYPES,
]
"""What the peer cannot write at this version, or not read afterwards."""
PEER_SAYS = "do not support|must match schema|end of stream|unsupported data type|Expecting fixed"


def write(data_type: pa.DataType, size: int, uri: Path) -> pa.Table:
    """Write a dataset with the peer, and return what it reads of it."""
    values = build_table(data_type, size, "0.1")
    table = values.add_column(0, "id", pa.array(np.arange(size)))
    lance.write_dataset(table, str(uri), data_storage_version="legacy", max_rows_per_group=GROUP)
    return lance.dataset(str(uri)).to_table()


@pytest.mark.parametrize("data_type", [one for one in TYPES if one not in REFUSED], ids=type_id)
def test_tables_and_files(data_type: pa.DataType, tmp_path: Path) -> None:
    # Without rows there is no dictionary, which the peer misses when it writes.
    sizes = SIZES[1:] if "dictionary" in str(data_type) else SIZES
    for size in (*sizes, *([LARGE] if data_type in LARGE_TYPES else [])):
        uri = tmp_path / str(size)
        expected = write(data_type, size, uri)
        dataset = lo.dataset(str(uri))
        assert dataset.data_storage_version == "0.1"
        assert_same(dataset.to_table(), expected)
        rows = some_rows(size)
        assert_same(dataset.take(rows), expected.take(rows))
        chosen = np.flatnonzero(np.arange(size) % 5 == 2)
        assert_same(dataset.to_table(filter="id % 5 = 2"), expected.take(chosen))
        for path in (uri / "data").glob("*.lance"):
            reader = FileReader.open(open_store(str(path.parent)), path.name)
            for start, stop in some_ranges(size):
                assert_same(reader.read_table(start=start, stop=stop), expected.slice(start, stop - start))


@pytest.mark.parametrize("data_type", REFUSED, ids=type_id)
def test_what_the_peer_refuses(data_type: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=PEER_SAYS), panics_as_errors():
        write(data_type, 3, tmp_path / "a")


def test_it_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"0\.1 is read but not written"):
        lo.write_dataset(pa.table({"a": [1]}), str(tmp_path / "a"), data_storage_version="0.1")
