"""Chunks that are found by their addresses, which only compiled loops can do."""

import numpy as np
import pytest

from lance_ops.encoding.chunks import CHUNK_ROOM, ChunkBuffer, assemble_chunks, measure_values, split_chunks
from lance_ops.errors import CorruptFileError


@pytest.mark.parametrize("size_bytes", [2, 4])
def test_values_of_chunks_that_lie_anywhere_are_measured_as_split_finds_them(size_bytes: int) -> None:
    values = ChunkBuffer.from_parts([np.full(size, 7, np.uint8) for size in (100, 0, 3)])
    _, data = assemble_chunks(None, None, None, (values,), np.array([64, 2, 7]), size_bytes=size_bytes)
    sizes = np.array([112, 8, 16])
    starts = np.cumsum(sizes) - sizes
    whole = ChunkBuffer(data, starts, sizes)
    (found,) = split_chunks(whole, has_rep=False, has_def=False, num_buffers=1, size_bytes=size_bytes).values
    addresses = starts.astype(np.uint64) + np.uint64(data.ctypes.data)
    measured = measure_values(addresses, sizes, size_bytes=size_bytes)
    assert measured.tolist() == found.sizes.tolist() == [100, 0, 3]
    assert found.starts.tolist() == (starts + CHUNK_ROOM).tolist()
    with pytest.raises(CorruptFileError, match="beyond the chunk"):
        measure_values(addresses, sizes - [0, 0, 6], size_bytes=size_bytes)
    with pytest.raises(CorruptFileError, match="too short for its header"):
        measure_values(addresses, sizes - [0, 1, 0], size_bytes=size_bytes)
