"""Value bounds: minimum and maximum of each page or zone, compared with a query."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.filter.functions.compare import compare
from lance_ops.index.sargable import Interval
from lance_ops.storage.fork_safe import cached_property

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.integer]


@dataclass(frozen=True)
class ValueBounds:
    """Value bounds of the parts of an index, cached and parsed once.

    Attributes:
        low: The least value of each part; null if unknown.
        high: The greatest, of the same type.
    """

    low: pa.Array
    high: pa.Array

    def reach(self, interval: Interval) -> Mask:
        """Return a mask of parts that may have a value in an interval, according to their bounds."""
        numbers = self.numbers
        inside = np.ones(len(self.low), np.bool_)
        if interval.low is not None:
            end = _as(interval.low, self.kind)
            if numbers is not None:
                inside &= numbers[1] >= _number(end)
            else:
                inside &= known(compare(">=", self.high, end), default=True)
        if interval.high is not None:
            end = _as(interval.high, self.kind)
            if numbers is not None:
                inside &= numbers[0] <= _number(end)
            else:
                inside &= known(compare("<=", self.low, end), default=True)
        return inside

    @cached_property
    def kind(self) -> pa.DataType:
        """Type of both."""
        return self.low.type

    @cached_property
    def numbers(self) -> tuple[Numbers, Numbers] | None:
        """Convert both to integers of the same order, if possible and none is null."""
        low, high = as_numbers(self.low), as_numbers(self.high)
        return None if low is None or high is None else (low, high)


def _as(end: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    return end if end.type == kind else end.cast(kind)


def as_numbers(values: pa.Array) -> Numbers | None:
    """Convert values to integers of the same order; None if that is not possible, or one is null."""
    kind = values.type
    if values.null_count or not counts(kind):
        return None
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return np.asarray(values)


def counts(kind: pa.DataType) -> bool:
    """Return whether values of a type are integers, or timestamps and durations stored as such."""
    return bool(pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)))


def known(flags: pa.Array, *, default: bool) -> Mask:
    """Flags as NumPy has them, where null is `default`."""
    return np.asarray(flags.fill_null(default).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _number(end: pa.Scalar) -> int:
    return int(end.value) if pa.types.is_temporal(end.type) else int(end.as_py())
