"""Fixed-size lists of such lists: Arrow's own filter returns other rows where files are read as one."""

import pyarrow as pa
import pytest

import lance_ops as lo

_TYPE = pa.list_(pa.list_(pa.float32(), 2), 2)
_TYPES = {"lists": _TYPE, "in a struct": pa.struct([("v", _TYPE)])}


def _value(number: int, data_type: pa.DataType) -> object:
    value = [[number, number + 0.5], [-number, 0]]
    return value if data_type == _TYPE else {"v": value}


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("data_type", _TYPES.values(), ids=_TYPES)
def test_rows_of_several_files_are_those_that_were_written(tmp_path, data_type, version) -> None:
    uri = str(tmp_path / "t.lance")
    values = [_value(number, data_type) for number in range(800)]
    table = pa.table({"id": pa.array(range(800)), "v": pa.array(values, data_type)})
    lo.write_dataset(table, uri, max_rows_per_file=166, data_storage_version=version)
    lo.delete(uri, "id % 5 = 1")
    rows = [row for row in table.to_pylist() if row["id"] % 5 != 1]
    dataset = lo.dataset(uri)
    assert dataset.to_table().to_pylist() == rows
    assert dataset.to_table(filter="id % 3 = 0").to_pylist() == [row for row in rows if row["id"] % 3 == 0]
    assert dataset.take([300, 7, 150]).to_pylist() == [rows[300], rows[7], rows[150]]
    lo.compact(uri, method="rewrite")
    assert lo.dataset(uri).to_table().to_pylist() == rows
