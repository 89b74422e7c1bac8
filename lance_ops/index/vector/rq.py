"""RQ: signs of rotated residuals, with what corrects the estimates from them (RaBitQ).

Signs of 32 rows lie together, byte by byte, as half bytes in an order that suits a lookup by 16 at once; the
rows behind the last 32 lie byte by byte, too, as they are. All other columns have a value a row. That is
enough to take rows out; new rows are left to the peer.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.index.vector.metric import Distances, Vectors
from lance_ops.index.vector.quantizer import Quantizer, lists_of, matrix_of
from lance_ops.pb import index_pb2

CODE_COLUMN = "_rabit_codes"
_TOGETHER = 32
_HALF = 16
# The row of the low half byte, by place; that of the high one is 16 rows behind it.
_ORDER = np.array([place // 2 + place % 2 * 8 for place in range(_HALF)])


class RabitQuantizer(Quantizer):
    """Codes that are kept and moved along.

    Args:
        metric: That distances are in.
        info: What the storage says of itself.
        columns: Of the storage, without the one of the rows' names.
    """

    name = "RQ"

    def __init__(self, metric: str, info: Mapping[str, Any], columns: pa.Schema) -> None:
        super().__init__(int(info["code_dim"]), metric)
        self._info = dict(info)
        self._columns = columns

    @property
    def columns(self) -> pa.Schema:
        """See `Quantizer.columns`."""
        return self._columns

    @property
    def info(self) -> Mapping[str, Any]:
        """See `Quantizer.info`."""
        return self._info

    @classmethod
    def read(cls, metric: str, info: Mapping[str, Any], columns: pa.Schema, path: str) -> "RabitQuantizer":
        """The quantizer of a storage.

        Raises:
            CorruptFileError: it is of another layout.
        """
        codes = columns.field(CODE_COLUMN).type if CODE_COLUMN in columns.names else pa.null()
        if not pa.types.is_fixed_size_list(codes) or codes.value_type != pa.uint8() or not info["packed"]:
            raise CorruptFileError("its codes have another layout", path=path, field=CODE_COLUMN)
        if info["rotate_mat_position"] is not None:
            raise CorruptFileError("its rotation is a matrix", path=path, field="rotate_mat_position")
        return cls(metric, info, columns)

    def describe(self, details: index_pb2.VectorIndexDetails) -> None:
        """See `Quantizer.describe`."""
        details.rq.num_bits = int(self._info["num_bits"])

    def pack(self, rows: pa.Table) -> pa.Table:
        """See `Quantizer.pack`."""
        codes = matrix_of(rows[CODE_COLUMN])
        count, width = codes.shape
        blocks = count // _TOGETHER
        whole = codes[: blocks * _TOGETHER].reshape(blocks, _TOGETHER, width)
        first, second = whole[:, _ORDER], whole[:, _ORDER + _HALF]
        packed = np.empty((blocks, width, 2, _HALF), np.uint8)
        packed[:, :, 0] = ((first & 15) | (second & 15) << 4).swapaxes(1, 2)
        packed[:, :, 1] = ((first >> 4) | (second & 0xF0)).swapaxes(1, 2)
        rest = codes[blocks * _TOGETHER :].T
        return self._with_codes(rows, np.concatenate([packed.ravel(), rest.ravel()]).reshape(codes.shape))

    def unpack(self, rows: pa.Table) -> pa.Table:
        """See `Quantizer.unpack`."""
        packed = matrix_of(rows[CODE_COLUMN])
        count, width = packed.shape
        blocks = count // _TOGETHER
        flat = packed.ravel()
        low, high = np.moveaxis(flat[: blocks * _TOGETHER * width].reshape(blocks, width, 2, _HALF), 2, 0)
        whole = np.empty((blocks, _TOGETHER, width), np.uint8)
        whole[:, _ORDER] = ((low & 15) | (high & 15) << 4).swapaxes(1, 2)
        whole[:, _ORDER + _HALF] = ((low >> 4) | (high & 0xF0)).swapaxes(1, 2)
        rest = flat[blocks * _TOGETHER * width :].reshape(width, count - blocks * _TOGETHER).T
        return self._with_codes(rows, np.concatenate([whole.reshape(-1, width), rest]))

    def encode(self, vectors: Vectors) -> pa.Table:
        """Not done."""
        del vectors
        self._refuse()

    def decode(self, rows: pa.Table) -> Vectors:
        """Not done."""
        del rows
        self._refuse()

    def distances(self, query: npt.NDArray[Any], rows: pa.Table) -> Distances:
        """Not done."""
        del query, rows
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedError("IVF_RQ can be kept and moved along, and is not searched or built here")

    def _with_codes(self, rows: pa.Table, codes: npt.NDArray[np.uint8]) -> pa.Table:
        place = rows.schema.get_field_index(CODE_COLUMN)
        field = rows.schema.field(place)
        return rows.set_column(place, field, lists_of(codes, field.type))
