"""Tables of points and boxes as GeoArrow has them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def _struct(columns: dict[str, np.ndarray], missing: np.ndarray) -> pa.StructArray:
    fields = [pa.field(name, pa.float64(), nullable=False) for name in columns]
    arrays = [pa.array(values, pa.float64()) for values in columns.values()]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(missing))


def values(numbers: Sequence[int]) -> pa.Table:
    """Rows by their numbers: a point, a box to the upper right of it, and nulls in both."""
    n = np.asarray(list(numbers), np.int64)
    x, y = (n * 37 % 101).astype(float), (n * 53 % 97).astype(float)
    point = _struct({"x": x, "y": y}, n % 11 == 5)
    box = _struct({"xmin": x, "ymin": y, "xmax": x + 1 + n % 7, "ymax": y + 1 + n % 5}, n % 13 == 4)
    fields = [
        pa.field("id", pa.int64()),
        pa.field("p", point.type, metadata={"ARROW:extension:name": "geoarrow.point"}),
        pa.field("b", box.type, metadata={"ARROW:extension:name": "geoarrow.box"}),
        pa.field("other", pa.int64()),
    ]
    arrays = [pa.array(n), point, box, pa.array(n % 3)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
