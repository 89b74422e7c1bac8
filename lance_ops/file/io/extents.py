"""Extents: many byte ranges of a file fetched together, with adjacent ones in one request."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.file.io.fetch import SparseRequest, Steps
from lance_ops.file.io.row_selection import Integers, RowSelection

Bytes = npt.NDArray[np.uint8]

_COPIED_GAP = 4 << 10


def fetch_extents(starts: Integers, stops: Integers, gap: int) -> Steps[tuple[pa.Buffer, Integers]]:
    """Fetch extents, without checks.

    Args:
        starts: First byte of each in the file; those that do not ascend are fetched separately.
        stops: End of each.
        gap: Maximum unused bytes fetched between two of them.

    Returns:
        Bytes with all extents, and the start of each in them; these ascend, as decoders expect.
    """
    if not len(starts):
        return pa.py_buffer(b""), starts
    cuts = _find_cuts(starts, stops, gap)
    if not len(cuts):
        low = int(starts[0])
        (data,) = yield [SparseRequest(low, int(stops[-1]) - low, int((stops - starts).sum()))]
        return data, starts - low
    if gap > _COPIED_GAP:
        # Gaps are copied, too: of a file that is mapped that may be most of it.
        cuts = _find_cuts(starts, stops, _COPIED_GAP)
    if len(cuts) == len(starts) - 1:
        # As in files that are read as one.
        sizes = stops - starts
        parts = yield list(zip(starts.tolist(), sizes.tolist(), strict=True))
        joined = np.concatenate([np.frombuffer(part, dtype=np.uint8) for part in parts])
        return pa.py_buffer(joined), np.cumsum(sizes) - sizes
    firsts = np.concatenate([[0], cuts])
    lasts = np.concatenate([cuts, [len(starts)]])
    lows = starts[firsts]
    sizes = stops[lasts - 1] - lows
    parts = yield list(zip(lows.tolist(), sizes.tolist(), strict=True))
    joined = np.concatenate([np.frombuffer(part, dtype=np.uint8) for part in parts])
    moved = lows - (np.cumsum(sizes) - sizes)
    return pa.py_buffer(joined), starts - np.repeat(moved, lasts - firsts)


def _find_cuts(starts: Integers, stops: Integers, gap: int) -> npt.NDArray[np.intp]:
    """Return numbers of the extents that are not fetched together with the previous one."""
    apart = (starts[1:] - stops[:-1] > gap) | (starts[1:] < starts[:-1]) | (stops[1:] < stops[:-1])
    return apart.nonzero()[0] + 1


def fetch_fixed(position: int, width: int, rows: RowSelection) -> Steps[pa.Buffer]:
    """Fetch values of a fixed width.

    Args:
        position: Of the value of row 0 in the file.
        width: Bytes of a value.
        rows: The rows, checked by the caller.

    Returns:
        The values of the wanted rows, in sequence.
    """
    if rows.numbers is None:
        (data,) = yield [(position + rows.start * width, rows.count * width)]
        return data
    starts = position + rows.numbers * width
    data, found = yield from fetch_extents(starts, starts + width, rows.gap)
    return pa.py_buffer(gather_fixed(np.frombuffer(data, dtype=np.uint8), found, width))


def fetch_bits(position: int, rows: RowSelection) -> Steps[npt.NDArray[np.bool_]]:
    """Fetch single bits, least significant first.

    Args:
        position: Position of the byte with the bit of row 0.
        rows: The rows, checked by the caller.
    """
    numbers = rows.indices
    starts = position + (numbers >> 3)
    data, found = yield from fetch_extents(starts, starts + 1, rows.gap)
    return pick_bits(np.frombuffer(data, dtype=np.uint8), found, numbers)


def pick_bits(data: Bytes, starts: Integers, numbers: Integers) -> npt.NDArray[np.bool_]:
    """Return bits of a bitmap: for each number its bit within the byte at `starts`."""
    return ((data[starts] >> (numbers & 7).astype(np.uint8)) & 1).view(np.bool_)


def gather_fixed(data: Bytes, starts: Integers, width: int) -> Bytes:
    """Gather values of a fixed width at arbitrary positions.

    Args:
        data: Bytes with all of them, checked by the caller.
        starts: Position of each.
        width: Bytes of each.
    """
    if not len(starts) or not width:
        return np.empty(0, dtype=np.uint8)
    if len(data) == len(starts) * width and not starts[0] and bool((starts[1:] - starts[:-1] == width).all()):
        return data
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    return np.asarray(windows[starts]).reshape(-1)
