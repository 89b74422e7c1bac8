"""IVF: positions of the rows of each partition in a file, and the centroids."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.index.vector.tensor import decode_tensor, encode_tensor
from lance_ops.pb import index_pb2

IVF_METADATA = "lance:ivf"


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """The message of a file.

    Attributes:
        offsets: First row of each partition, int64.
        lengths: Rows of each, int64.
        centroids: Shape (partitions, dimension); None in the file that has the vectors.
        loss: Of the training.
    """

    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    centroids: npt.NDArray[Any] | None = None
    loss: float | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of_lengths(
        cls,
        lengths: npt.NDArray[np.int64],
        centroids: npt.NDArray[Any] | None = None,
        loss: float | None = None,
    ) -> "Partitions":
        """Build consecutive partitions from their lengths."""
        offsets = np.concatenate(([0], np.cumsum(lengths)))[:-1].astype(np.int64)
        return cls(offsets, lengths, centroids, loss)

    def encode(self) -> bytes:
        """Return the message."""
        message = index_pb2.IVF(offsets=self.offsets.tolist(), lengths=self.lengths.tolist(), loss=self.loss)
        if self.centroids is not None:
            message.centroids_tensor.CopyFrom(encode_tensor(self.centroids))
        return message.SerializeToString()


def read_partitions(reader: FileReader, *, rows: int | None = None) -> Partitions:
    """Return the partitions of a file.

    Args:
        reader: The file.
        rows: Rows that the partitions are of; those of the file when None.

    Raises:
        CorruptFileError: they cannot be read, or are not those of its rows.
    """
    message = index_pb2.IVF()
    try:
        message.ParseFromString(reader.global_buffer(int(reader.schema.metadata[IVF_METADATA])).to_pybytes())
    except (DecodeError, KeyError, ValueError) as error:
        raise CorruptFileError(
            f"its partitions cannot be read: {error}", path=reader.path, field=IVF_METADATA
        ) from error
    offsets = np.array(message.offsets, np.uint64)
    lengths = np.array(message.lengths, np.uint64)
    expected = reader.num_rows if rows is None else rows
    stop = np.uint64(expected)
    if (
        len(offsets) != len(lengths)
        or (offsets > stop).any()
        or (lengths > stop - offsets).any()
        or int(lengths.sum()) != expected
    ):
        raise CorruptFileError(
            f"its partitions are not those of {expected:,} rows", path=reader.path, field=IVF_METADATA
        )
    order = np.argsort(offsets, kind="stable")
    if (offsets[order] + lengths[order] > np.append(offsets[order][1:], stop)).any():
        raise CorruptFileError("its partitions overlap", path=reader.path, field=IVF_METADATA)
    centroids = None
    if message.HasField("centroids_tensor"):
        centroids = decode_tensor(message.centroids_tensor, path=reader.path, field="centroids")
        if centroids.ndim != 2 or len(centroids) != len(lengths):
            raise CorruptFileError(
                f"centroids of shape {centroids.shape} for {len(lengths):,} partitions",
                path=reader.path,
                field="centroids",
            )
    loss = message.loss if message.HasField("loss") else None
    return Partitions(offsets.astype(np.int64), lengths.astype(np.int64), centroids, loss)
