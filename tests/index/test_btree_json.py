"""A BTREE on JSON holds the bytes of documents, as the peer's does, and answers no filter on their text."""

from pathlib import Path

import lance
import lance.file
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import PredicateError

DOCUMENTS = ['"x"', None, '{"a":1}', "1"]


def _pages(uri: Path, name: str) -> list[dict]:
    (file,) = (uri / "_indices").glob(f"*/{name}")
    return lance.file.LanceFileReader(str(file)).read_all().to_table().to_pylist()


@pytest.mark.peer
def test_a_btree_on_json_is_that_of_the_peer(tmp_path: Path) -> None:
    rows = pa.table({"j": pa.array(DOCUMENTS, pa.json_())})
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for uri in (ours, theirs):
        lance.write_dataset(rows, str(uri), data_storage_version="2.2")
    lo.create_index(ours, "j", "btree")
    lance.dataset(str(theirs)).create_scalar_index("j", "BTREE")

    for name in ("page_data.lance", "page_lookup.lance"):
        assert _pages(ours, name) == _pages(theirs, name)
    for uri in (ours, theirs):
        lo.write_dataset(rows, uri, mode="append")
        lo.optimize_indices(uri)
        with pytest.raises(PredicateError, match="cannot be compared"):
            lo.dataset(uri).count_rows("j = '\"x\"'")
        with pytest.raises(OSError, match="j = "):
            lance.dataset(str(uri)).count_rows(filter="j = '\"x\"'")
        assert lo.dataset(uri).count_rows("j is null") == 2
        assert lance.dataset(str(uri)).count_rows(filter="j is null") == 2
