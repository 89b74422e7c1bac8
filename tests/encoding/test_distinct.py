"""Distinct numbers: those of NumPy, in its order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lance_ops.encoding.distinct import distinct


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, np.uint32, np.int32])
@given(data=st.data())
def test_it_is_what_numpy_gives(dtype, data):
    shape = arrays.array_shapes(min_dims=1, max_dims=2, min_side=0)
    values = data.draw(arrays.arrays(dtype, shape, unique=data.draw(st.booleans())))
    before = values.copy()
    found = distinct(values)
    assert found.dtype == dtype
    assert found.tolist() == np.unique(values).tolist()
    assert (values == before).all()
