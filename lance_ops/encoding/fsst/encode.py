"""FSST encoding."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.fsst.table import SymbolTable
from lance_ops.encoding.kernels.fsst import encode as loops
from lance_ops.encoding.memory import empty
from lance_ops.encoding.parallel import count_shares, run_side_by_side

# Below, handing a share to another thread takes longer than encoding it.
_SHARE_BYTES = 1 << 18


def encode_fsst(
    table: SymbolTable, offsets: npt.NDArray[Any], data: pa.Buffer
) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    """Compress strings, each by itself.

    Args:
        table: Symbols.
        offsets: Shape (n + 1,), not decreasing; only the differences count.
        data: The bytes from `offsets[0]` on.

    Returns:
        Offsets of the compressed strings from 0, and their bytes.
    """
    offsets = np.ascontiguousarray(offsets)
    ends = empty(len(offsets), np.int64)
    count = loops.find_ends(offsets=offsets, ends=ends)
    out_offsets = np.zeros(len(offsets), dtype=np.int64)
    if count == 0:
        return out_offsets, pa.py_buffer(b"")
    size = int(ends[count - 1])
    plain = np.frombuffer(data, dtype=np.uint8, count=size)
    words, codes = np.zeros(loops.ALL_PLACES, dtype=np.uint64), np.zeros(loops.ALL_PLACES, dtype=np.uint16)
    pair_codes = np.zeros(loops.ALL_PAIRS, dtype=np.uint16)
    keys = loops.prepare(
        words=table.words,
        lengths=table.lengths,
        found_words=words,
        found_codes=codes,
        pair_codes=pair_codes,
    )
    out, out_ends = empty(2 * size, np.uint8), empty(count, np.int64)

    def encode_strings(first: int, last: int) -> int:
        """Encode some strings to twice their place in the data; returns how many bytes they become."""
        start, stop = int(ends[first - 1]) if first else 0, int(ends[last - 1])
        part, part_ends = out[2 * start : 2 * stop], out_ends[first:last]
        # One more than there are strings, see the kernel.
        plain_ends = ends[first : last + 1] - start
        half = int(np.searchsorted(plain_ends[:-1], (stop - start) // 2))
        middle = 2 * int(plain_ends[half - 1]) if half else 0
        ending = np.concatenate([plain[start:stop][-8:], np.zeros(8, dtype=np.uint8)])
        first_end, second_end = loops.encode(
            data=plain[start:stop],
            ending=ending,
            ends=plain_ends,
            count=last - first,
            half=half,
            keys=keys,
            words=words,
            codes=codes,
            pairs=pair_codes,
            out=part,
            middle=middle,
            out_ends=part_ends,
        )
        part[first_end : first_end + second_end - middle] = part[middle:second_end]
        part_ends[half:] -= middle - first_end
        return int(part_ends[-1])

    cuts = _cut_evenly(ends[:count], size)
    sizes = run_side_by_side([partial(encode_strings, *cut) for cut in pairwise(cuts)])
    done = sizes[0]
    for (first, last), length in zip(pairwise(cuts[1:]), sizes[1:], strict=True):
        place = 2 * int(ends[first - 1])
        out[done : done + length] = out[place : place + length]
        out_ends[first:last] += done
        done += length
    loops.fill_offsets(offsets=offsets, ends=out_ends, out_offsets=out_offsets)
    return out_offsets, pa.py_buffer(out[:done])


def _cut_evenly(ends: npt.NDArray[np.int64], size: int) -> list[int]:
    """Numbers of the strings at which each thread's share begins, and that of the last string plus one."""
    threads = count_shares(size, _SHARE_BYTES)
    cuts = np.searchsorted(ends, np.arange(1, threads) * (size // threads)) + 1
    return [0, *sorted({int(cut) for cut in cuts if cut < len(ends)}), len(ends)]
