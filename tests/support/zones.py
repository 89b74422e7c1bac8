"""Rows for indices of zones: values that ascend with the rows, with nulls among them."""

from collections.abc import Sequence

import pyarrow as pa


def values(numbers: Sequence[int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "x": pa.array([None if n % 9 == 4 else n // 3 for n in numbers], pa.int32()),
            "s": pa.array([None if n % 11 == 5 else f"{'abc'[n // 12 % 3]}{n % 12}" for n in numbers]),
            "other": pa.array([n % 3 for n in numbers], pa.int64()),
        }
    )
