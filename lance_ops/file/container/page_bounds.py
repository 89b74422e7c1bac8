"""Page bounds: value bounds of the pages of a column, so that a scan can skip pages."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PageBounds:
    """Bounds of the values of one field in each page.

    The bounds need not occur among the values (format text, "Statistics"), so they do not answer MIN or MAX.

    Attributes:
        starts: First row of each page and the number of rows of the file, shape (pages + 1,).
        low: Lower bound of each page; null if unknown.
        high: Upper bound of each page; null if unknown.
    """

    starts: npt.NDArray[np.int64]
    low: pa.Array
    high: pa.Array
