"""Page bounds: what a file knows of the values of a column by page, so that a scan can leave some out."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PageBounds:
    """Bounds of the values of one field in each page.

    The bounds need not occur among the values (format text, "Statistics"), so that they answer no MIN or MAX.

    Attributes:
        starts: First row of each page and the number of rows of the file, shape (pages + 1,).
        low: One value a page that no value of the page is below; null where none is known.
        high: One value a page that no value of the page is above; null where none is known.
    """

    starts: npt.NDArray[np.int64]
    low: pa.Array
    high: pa.Array
