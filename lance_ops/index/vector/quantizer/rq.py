"""RQ: signs of rotated residuals, with what corrects the estimates from them (RaBitQ).

A residual is rotated, and each of its values told by its sign and some bits more (`num_bits` in all); the
distance of a query is estimated from its product with these numbers, with an offset and a scale for each row.

Signs of 32 rows lie together, byte by byte, as half bytes in an order that suits a lookup by 16 at once; the
rows behind the last 32 lie byte by byte, too, as they are. All other columns have a value a row. New rows are
left to the peer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.index.vector.metric import Distances, Vectors
from lance_ops.index.vector.quantizer.base import Quantizer, lists_of, matrix_of
from lance_ops.pb import index_pb2

CODE_COLUMN = "_rabit_codes"
EXTRA_COLUMN = "__blocked_ex_codes"
_ROUNDS = 4
_TOGETHER = 32
_HALF = 16
# The row of the low half byte, by place; that of the high one is 16 rows behind it.
_ORDER = np.array([place // 2 + place % 2 * 8 for place in range(_HALF)])


class RabitQuantizer(Quantizer):
    """Codes that are searched and moved along.

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

    def distances(self, query: npt.NDArray[Any], rows: pa.Table, centroid: npt.NDArray[Any]) -> Distances:
        """See `Quantizer.distances`."""
        around = centroid.astype(np.float32)
        rotated = rotate(query.astype(np.float32), self._info["fast_rotation_signs"])
        values, suffix = self._values(rows)
        add, scale = (rows[f"__{name}_factors{suffix}"].to_numpy() for name in ("add", "scale"))
        # Rows know their distance from the centroid; this is that of the query.
        offset = -(query @ around) if self.metric == "dot" else ((query - around) ** 2).sum()
        return np.asarray(offset + add + scale * (values @ rotated), np.float32)

    def _values(self, rows: pa.Table) -> tuple[npt.NDArray[np.float32], str]:
        """The numbers that stand for rotated residuals, and how the columns of their factors end."""
        extra = int(self._info["num_bits"]) - 1
        if self._info.get("query_estimator") != "raw_query" or not 0 <= extra <= 8:
            raise UnsupportedError("IVF_RQ of this layout is moved along, and not searched")
        codes = matrix_of(rows[CODE_COLUMN])
        found = np.unpackbits(codes, axis=1, bitorder="little")[:, : self.dimension].astype(np.int32)
        if extra:
            more = unpack_bits(matrix_of(rows[EXTRA_COLUMN]), extra)
            found = (found << extra) + more[:, : self.dimension]
        middle = ((2 << extra) - 1) / 2
        return np.asarray(found - middle, np.float32), "_ex" if extra else ""

    def _refuse(self) -> NoReturn:
        raise UnsupportedError("IVF_RQ can be searched and moved along, and is not built here")

    def _with_codes(self, rows: pa.Table, codes: npt.NDArray[np.uint8]) -> pa.Table:
        place = rows.schema.get_field_index(CODE_COLUMN)
        field = rows.schema.field(place)
        return rows.set_column(place, field, lists_of(codes, field.type))


def unpack_bits(packed: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.int32]:
    """Numbers of some bits, 64 at a time, as they lie for sums of 16 at once.

    Two and four bits share bytes between numbers 16 (of four bits: 8) places apart. Of three, five and seven
    bits the highest ones lie apart; of six and seven the last 16 numbers are in the free bits of the others.

    Args:
        packed: Shape (rows, bytes), bytes for whole groups of 64 numbers.
        bits: From 1 to 8.
    """
    rows = len(packed)
    groups = packed.reshape(rows, packed.shape[1] // (8 * bits), 8 * bits).astype(np.int32)
    count = groups.shape[1]
    if bits == 8:
        return groups.reshape(rows, count * 64)
    if bits == 1:
        return ((groups[..., None] >> np.arange(8)) & 1).reshape(rows, count * 64)
    if bits == 4:
        eights = groups.reshape(rows, count, 4, 8)
        return np.concatenate([eights & 15, eights >> 4], axis=3).reshape(rows, count * 64)
    if bits in (2, 3):
        low = [(groups[..., :16] >> 2 * run) & 3 for run in range(4)]
    elif bits == 5:
        low = [
            (groups[..., 16 * (run // 2) : 16 * (run // 2) + 16] >> 4 * (run % 2)) & 15 for run in range(4)
        ]
    else:
        blocks = [groups[..., 16 * run : 16 * run + 16] for run in range(3)]
        low = [block & 63 for block in blocks]
        low.append(blocks[0] >> 6 | blocks[1] >> 6 << 2 | blocks[2] >> 6 << 4)
    found = np.stack(low, axis=2)
    if bits in (3, 5, 7):
        plane = groups[..., 8 * bits - 8 :]
        place = np.arange(16)
        for run in range(4):
            top = (plane[..., place % 8] >> (2 * run + place // 8)) & 1
            found[:, :, run] |= top << (bits - 1)
    return found.reshape(rows, count * 64)


def rotate(vector: npt.NDArray[np.float32], signs: Sequence[int]) -> npt.NDArray[np.float32]:
    """The rotation that signs stand for: flips, and sums and differences of values that lie far apart.

    Args:
        vector: Shape (dimension,).
        signs: Bytes, one bit a dimension, for each round in turn.
    """
    count = len(vector)
    flips = np.unpackbits(
        np.array(signs, np.uint8).reshape(_ROUNDS, -(-count // 8)), axis=1, bitorder="little"
    )
    whole = 1 << (count.bit_length() - 1)
    found = vector.astype(np.float32)
    for number in range(_ROUNDS):
        found = np.where(flips[number, :count] == 1, -found, found)
        if whole == count:
            found = _hadamard(found)
            continue
        part = slice(0, whole) if number % 2 == 0 else slice(count - whole, count)
        found[part] = _hadamard(found[part])
        half = count // 2
        first, second = found[:half].copy(), found[half : 2 * half].copy()
        found[:half], found[half : 2 * half] = first + second, first - second
    # Each round of these sums doubles the square of the length.
    return found if whole == count else found / np.float32(_ROUNDS)


def _hadamard(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    count, step = len(values), 1
    while step < count:
        pairs = values.reshape(-1, 2, step)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(count)
        step *= 2
    return values / np.float32(np.sqrt(count))
