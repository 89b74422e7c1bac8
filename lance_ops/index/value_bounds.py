"""Value bounds: the least and the greatest value of each page or zone, compared with what is asked for."""

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
    """What parts of an index say of their values; kept with them, it is taken apart once.

    Attributes:
        low: The least value of each part; null where nobody knows.
        high: The greatest, of the same type.
    """

    low: pa.Array
    high: pa.Array

    def reach(self, interval: Interval) -> Mask:
        """Which parts may have a value in an interval, as far as their bounds tell: one boolean a part."""
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
        """Both as integers that stand in the same order, where they are such and all of them are known."""
        low, high = as_numbers(self.low), as_numbers(self.high)
        return None if low is None or high is None else (low, high)


def _as(end: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    return end if end.type == kind else end.cast(kind)


def as_numbers(values: pa.Array) -> Numbers | None:
    """Values as integers that stand in the same order; None where they are no such, or one is null."""
    kind = values.type
    if values.null_count or not counts(kind):
        return None
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return np.asarray(values)


def counts(kind: pa.DataType) -> bool:
    """Whether values of a type are integers, or moments and spans that are stored as such."""
    return bool(pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)))


def known(flags: pa.Array, *, default: bool) -> Mask:
    """Flags as NumPy has them, where null is `default`."""
    return np.asarray(flags.fill_null(default).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _number(end: pa.Scalar) -> int:
    return int(end.value) if pa.types.is_temporal(end.type) else int(end.as_py())
