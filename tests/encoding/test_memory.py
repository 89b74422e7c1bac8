import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.memory import empty


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.dtype("<u8")])
def test_arrays_of_the_pool_can_be_written(dtype) -> None:
    before = pa.total_allocated_bytes()
    array = empty(1000, dtype)
    assert array.dtype == dtype
    assert pa.total_allocated_bytes() >= before + array.nbytes
    array[:] = 7
    assert int(array.sum()) == 7000
    del array
    assert pa.total_allocated_bytes() == before


def test_nothing_has_no_memory() -> None:
    assert empty(0, np.int64).tolist() == []
