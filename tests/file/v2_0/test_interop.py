"""Storage version 2.0: many small pages and the schema, between both sides; the matrix has the rest."""

from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from tests.file.matrix.cells import assert_same
from tests.support.arrays import ALL_2_0_TYPES, random_array

pytestmark = pytest.mark.peer

TYPE_IDS = [str(data_type).replace(" ", "") for data_type in ALL_2_0_TYPES]


@pytest.mark.parametrize("data_type", ALL_2_0_TYPES, ids=TYPE_IDS)
def test_many_small_pages_from_many_small_batches_are_read_by_both(
    data_type: pa.DataType, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path))
    table = pa.table({"c": random_array(data_type, 3000, nulls=0.3)})
    with FileWriter(
        store, "a.lance", Schema.from_arrow(table.schema), page_bytes=2000, version="2.0"
    ) as writer:
        for batch in table.to_batches(max_chunksize=77):
            writer.write(batch)
    assert_same(lance.file.LanceFileReader(str(tmp_path / "a.lance")).read_all().to_table(), table)
    reader = FileReader.open(store, "a.lance")
    assert_same(reader.read_table(), table)
    assert_same(reader.read_table(start=1111, stop=2222), table.slice(1111, 1111))
    rows = np.arange(0, 3000, 37)
    assert_same(reader.take(rows), table.take(rows))


@pytest.mark.parametrize("data_type", ALL_2_0_TYPES, ids=TYPE_IDS)
def test_schemas_have_the_bytes_that_the_peer_writes(data_type: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("c", data_type, metadata={"k": "v"})], metadata={"s": "t"})
    path = str(tmp_path / "a.lance")
    with lance.file.LanceFileWriter(path, schema, version="2.0"):
        pass
    theirs = FileReader.open(open_store(str(tmp_path)), "a.lance").schema
    ours = Schema.from_arrow(schema)
    assert theirs == ours
    assert theirs.to_protos() == ours.to_protos()
