"""RQ: signs of rotated residuals, with what corrects the estimates from them (RaBitQ).

A residual is rotated, and each of its values is encoded by its sign and further bits (`num_bits` in total);
the distance of a query is estimated from its product with these numbers, with an offset and a scale for each
row.

Signs of 32 rows are interleaved, byte by byte, as half bytes in an order for lookups of 16 at once; the
remaining rows are stored byte by byte without interleaving. All other columns have a value a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index import rabit
from lance_ops.encoding.kernels.index.rabit import choose_levels, estimate
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.index.vector.metric import Distances, Vectors
from lance_ops.index.vector.quantizer.base import Codes, Quantizer, lists_of, matrix_of, residuals, stops_of
from lance_ops.index.vector.quantizer.rq_bits import pack_bits, unpack_numbers
from lance_ops.pb import index_pb2

ROUNDS = 4

CODE_COLUMN = "_rabit_codes"
EXTRA_COLUMN = "__blocked_ex_codes"
_BLOCK_ROWS = 1 << 12
_GROUP = 64
_ERROR = 1.9
"""Standard deviations of an estimate covered by the error of a row, as in pylance."""

_SHARES = np.arange(480, 1060, 36)
_NEARBY = np.array([-24, -16, -8, 8, 16, 24])
"""Candidate ranges of levels as shares of the greatest value of a row, in 1,024ths.

First coarse, then around the best. With few bits it is better to clip the greatest values.
"""
_MEAN, _GREATEST = 1 << 14, 1 << 22
_TOGETHER = 32
_HALF = 16
# The row of the low half byte, by place; that of the high one is 16 rows behind it.
_ORDER = np.array([place // 2 + place % 2 * 8 for place in range(_HALF)])


class RabitQuantizer(Quantizer):
    """Signs and levels of rotated residuals.

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

    @classmethod
    def create(cls, dimension: int, metric: str, bits: int, seed: int) -> "RabitQuantizer":
        """Create a quantizer for a new index; it needs no training.

        Args:
            dimension: Of the vectors, divisible by eight.
            metric: Metric of distances.
            bits: Of a value, its sign included: 1 to 9.
            seed: Of the rotation.
        """
        info = {
            "rotate_mat_position": None,
            "fast_rotation_signs": random_signs(dimension, seed),
            "rotation_type": "fast",
            "code_dim": dimension,
            "num_bits": bits,
            "packed": True,
            "query_estimator": "raw_query",
        }
        return cls(metric, info, layout(info))

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
        """Return the quantizer of a storage.

        Raises:
            CorruptFileError: it is of another layout.
        """
        codes = columns.field(CODE_COLUMN).type if CODE_COLUMN in columns.names else pa.null()
        if not pa.types.is_fixed_size_list(codes) or codes.value_type != pa.uint8():
            raise CorruptFileError(f"its codes are {codes}", path=path, field=CODE_COLUMN)
        if info["rotate_mat_position"] is not None:
            raise UnsupportedError(
                "its rotation is a matrix, which is not supported", path=path, field="rotate_mat_position"
            )
        dimension, signs = int(info["code_dim"]), info.get("fast_rotation_signs")
        if dimension != 8 * codes.list_size or not 0 < int(info["num_bits"]) <= 9:
            raise CorruptFileError(
                f"{dimension} dimensions of {info['num_bits']} bits in {codes}", path=path, field=CODE_COLUMN
            )
        if signs is not None and (
            len(signs) != ROUNDS * codes.list_size or not all(0 <= sign <= 255 for sign in signs)
        ):
            raise CorruptFileError("its rotation has other signs", path=path, field="fast_rotation_signs")
        return cls(metric, info, columns)

    def describe(self, details: index_pb2.VectorIndexDetails) -> None:
        """See `Quantizer.describe`."""
        details.rq.num_bits = int(self._info["num_bits"])

    @property
    def order(self) -> Mapping[str, Any]:
        """See `Quantizer.order`."""
        return {"packed": self._packed}

    @property
    def _packed(self) -> bool:
        """Whether 32 rows at a time are interleaved, as pylance stores them without `skip_transpose`."""
        return bool(self._info["packed"])

    def pack(self, rows: pa.Table) -> pa.Table:
        """See `Quantizer.pack`."""
        return self._interleaved(rows) if self._packed else rows

    def _interleaved(self, rows: pa.Table) -> pa.Table:
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
        if not self._packed:
            return rows
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

    @property
    def can_encode(self) -> bool:
        """Return whether new rows can be added to this layout."""
        return self._extra is not None and self._columns.equals(layout(self._info))

    def encode(
        self, vectors: Vectors, centroids: npt.NDArray[Any], partitions: npt.NDArray[np.int64]
    ) -> pa.Table:
        """See `Quantizer.encode`.

        Raises:
            UnsupportedError: The layout is not the one that pylance writes now.
        """
        if not self.can_encode:
            raise UnsupportedError("this IVF_RQ layout can be remapped but not extended")
        around = rotate(centroids.astype(np.float32), self._signs)
        parts = [pa.table([], schema=self.columns)] if not len(vectors) else []
        for start in range(0, len(vectors), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            parts.append(self._encode(vectors[block], centroids, around, partitions[block]))
        return pa.concat_tables(parts).combine_chunks()

    def _encode(
        self,
        vectors: Vectors,
        centroids: npt.NDArray[Any],
        around: npt.NDArray[np.float32],
        partitions: npt.NDArray[np.int64],
    ) -> pa.Table:
        apart = residuals(vectors, centroids, partitions)
        rotated, middle = rotate(apart, self._signs), around[partitions]
        above = rotated > 0
        signs = np.where(above, np.float32(0.5), np.float32(-0.5))
        # Rows store their distance from the centroid; the query computes its own.
        base = np.einsum("ij,ij->i", apart, apart)
        if self.metric == "dot":
            base = 1 - np.einsum("ij,ij->i", apart, centroids[partitions].astype(np.float32))
        factors = _Factors(rotated, middle, base, 1 if self.metric == "dot" else 2)
        add, scale, error = factors.of(signs)
        columns: list[Any] = [
            lists_of(np.packbits(above, axis=1, bitorder="little"), self.columns.field(0).type)
        ]
        columns += [add, scale, error]
        if self._extra:
            levels = best_levels(rotated, self._extra)
            add, scale, _ = factors.of((2 * levels.astype(np.float32) + 1) * signs)
            most = (1 << self._extra) - 1
            stored = np.zeros((len(levels), -(-self.dimension // _GROUP) * _GROUP), np.uint8)
            stored[:, : self.dimension] = np.where(above, levels, most - levels)
            columns += [
                lists_of(pack_bits(stored, self._extra), self.columns.field(EXTRA_COLUMN).type),
                add,
                scale,
            ]
        return pa.table(columns, schema=self.columns)

    def decode(self, rows: pa.Table) -> Vectors:
        """Not done: no graph is made of these."""
        del rows
        raise UnsupportedError("vectors of IVF_RQ are not known again")

    @property
    def searched(self) -> Sequence[str]:
        """Columns for searches; levels have additional factors."""
        extra = bool(self._extra)
        return [CODE_COLUMN, *([EXTRA_COLUMN] if extra else []), *self._factors(extra)]

    def codes(self, rows: pa.Table) -> Codes:
        """See `Quantizer.codes`: a number for each value, its sign above its level, and what corrects sums.

        Raises:
            UnsupportedError: The layout is not one that is known.
        """
        extra = self._extra
        if extra is None:
            raise UnsupportedError("this IVF_RQ layout can be remapped but not searched")
        if not self._packed:
            rows = self._interleaved(rows)
        packed = matrix_of(rows[EXTRA_COLUMN]) if extra else None
        numbers = unpack_numbers(matrix_of(rows[CODE_COLUMN]), packed, extra)
        add, scale = (
            np.ascontiguousarray(rows[name].to_numpy(), np.float32) for name in self._factors(bool(extra))
        )
        return numbers, add, scale

    def distances(
        self, query: npt.NDArray[Any], parts: Sequence[Codes], centroids: npt.NDArray[Any]
    ) -> Distances:
        """See `Quantizer.distances`: estimated from the product of the numbers and the rotated query."""
        bits = int(self._info["num_bits"])
        wanted = query.astype(np.float32)
        rotated = rotate(wanted[None], self._signs)[0]
        # Numbers represent the centres of steps on both sides of zero.
        middle = ((1 << bits) - 1) / 2 * rotated.sum(dtype=np.float64)
        around = centroids.astype(np.float32)
        # Rows store their distance from the centroid; this is that of the query.
        offsets = -(around @ wanted) if self.metric == "dot" else ((wanted - around) ** 2).sum(axis=1)
        stops = stops_of(parts)
        found = np.empty(stops[-1], np.float32)
        for place, (numbers, add, scale) in enumerate(parts):
            estimate(
                numbers=numbers,
                weights=rotated,
                middle=middle,
                add=add,
                scale=scale,
                offset=offsets[place],
                found=found[stops[place] : stops[place + 1]],
            )
        return found

    @staticmethod
    def _factors(with_levels: bool) -> tuple[str, str]:
        """Return the columns of offset and scale."""
        suffix = "_ex" if with_levels else ""
        return f"__add_factors{suffix}", f"__scale_factors{suffix}"

    @property
    def _signs(self) -> Sequence[int]:
        return cast("Sequence[int]", self._info["fast_rotation_signs"])

    @property
    def _extra(self) -> int | None:
        """Return the bits of a value besides its sign; None for an unknown layout."""
        extra = int(self._info["num_bits"]) - 1
        known = (
            self._info.get("query_estimator") == "raw_query"
            and self._info.get("fast_rotation_signs") is not None
        )
        return extra if known else None

    def _with_codes(self, rows: pa.Table, codes: npt.NDArray[np.uint8]) -> pa.Table:
        place = rows.schema.get_field_index(CODE_COLUMN)
        field = rows.schema.field(place)
        return rows.set_column(place, field, lists_of(codes, field.type))


@dataclass(frozen=True, slots=True, eq=False)
class _Factors:
    """Correction factors of distances estimated from codes.

    Attributes:
        rotated: Residuals, shape (rows, dimension).
        middle: The rotated centroid of each.
        base: Distance of each row from its centroid.
        share: Factor of the product of residual and query in the distance: two in squared ones.
    """

    rotated: npt.NDArray[np.float32]
    middle: npt.NDArray[np.float32]
    base: npt.NDArray[np.float32]
    share: int

    def of(self, values: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], ...]:
        """Offset, scale, and the error that is probably not passed, of each row.

        Args:
            values: What stands for the residuals, shape (rows, dimension).
        """
        square = _products(self.rotated, self.rotated)
        product = _products(self.rotated, values)
        # A row at its centroid has no direction, and its distance is known.
        there = product > 0
        unit = np.divide(square, product, out=np.zeros_like(square), where=there)
        wide = np.divide(
            square * _products(values, values), product * product, out=np.ones_like(square), where=there
        )
        dimension = self.rotated.shape[1]
        error = np.sqrt(square * np.maximum(wide - 1, 0) / max(dimension - 1, 1))
        add = self.base + self.share * unit * _products(values, self.middle)
        found = (add, -self.share * unit, self.share * _ERROR * error)
        return tuple(np.asarray(numbers, np.float32) for numbers in found)


def _products(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    return np.asarray(np.einsum("ij,ij->i", one, other), np.float64)


def layout(info: Mapping[str, Any]) -> pa.Schema:
    """Convert columns of a storage, without row ids, to the current layout."""
    dimension, extra = int(info["code_dim"]), int(info["num_bits"]) - 1
    numbers = [pa.field(f"__{name}_factors", pa.float32()) for name in ("add", "scale", "error")]
    columns = [pa.field(CODE_COLUMN, pa.list_(pa.uint8(), dimension // 8)), *numbers]
    if extra > 0:
        width = -(-dimension // _GROUP) * 8 * extra
        columns.append(pa.field(EXTRA_COLUMN, pa.list_(pa.uint8(), width)))
        columns += [pa.field(f"__{name}_factors_ex", pa.float32()) for name in ("add", "scale")]
    return pa.schema(columns)


def best_levels(rotated: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.uint8]:
    """Return levels of absolute values that preserve their direction best.

    Args:
        rotated: Shape (rows, dimension).
        bits: Of a level.
    """
    length = np.sqrt(_products(rotated, rotated) / rotated.shape[1])
    # As integers, of which those of a row are some thousands.
    share = np.divide(_MEAN, length, out=np.zeros_like(length), where=length > 0)
    amounts = np.minimum(np.abs(rotated) * share[:, None].astype(np.float32), _GREATEST).astype(np.int32)
    levels = np.empty(amounts.shape, np.uint8)
    choose_levels(amounts=amounts, shares=_SHARES, nearby=_NEARBY, most=(1 << bits) - 1, levels=levels)
    return levels


def random_signs(dimension: int, seed: int) -> list[int]:
    """Return random signs for `rotate`: bytes, one bit a dimension, for each round."""
    return list(np.random.default_rng(seed).bytes(ROUNDS * -(-dimension // 8)))


def rotate(vectors: npt.NDArray[np.float32], signs: Sequence[int]) -> npt.NDArray[np.float32]:
    """Apply the rotation defined by signs.

    Args:
        vectors: Shape (rows, dimension).
        signs: Bytes, one bit a dimension, for each round in turn.
    """
    dimension = vectors.shape[1]
    stored = np.array(signs, np.uint8).reshape(ROUNDS, -(-dimension // 8))
    flips = np.ascontiguousarray(np.unpackbits(stored, axis=1, bitorder="little")[:, :dimension])
    rotated = np.array(vectors, np.float32, order="C")
    rabit.rotate(vectors=rotated, flips=flips)
    return rotated
