"""Row removal from constant pages: only their levels change."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.pages.levels import Levels
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.encoding.values.values import Fixed, as_words
from lance_ops.errors import CorruptFileError
from lance_ops.file.page_copy.levels import keep_levels
from lance_ops.file.v2_1.columns import parse_layers
from lance_ops.file.v2_1.compression.decode import decode_block
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.compression.levels import compress_level_block
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]

_MAX_ENTRIES = 2**31 - 1


def keep_constant(
    layout: pb.ConstantLayout, buffers: list[Bytes], keep: npt.NDArray[np.bool_], version: str
) -> EncodedPage:
    """Return a page of the kept rows.

    Args:
        layout: Of the page.
        buffers: Of the page: the value, if it is not in the layout, and the levels, if there are any.
        keep: The kept rows, at least one.
        version: "2.1" or "2.2".

    Raises:
        CorruptFileError: The bytes do not match the layout.
    """
    count = int(np.count_nonzero(keep))
    kept = pb.ConstantLayout()
    kept.CopyFrom(layout)
    if len(buffers) < 2:
        return EncodedPage(pb.PageLayout(constant_layout=kept), tuple(buffers), count)
    if len(buffers) > 3:
        raise CorruptFileError(f"a constant page must not have {len(buffers)} buffers")
    *value, stored_rep, stored_def = buffers
    rep = _read(layout, "rep", stored_rep)
    definition = _read(layout, "def", stored_def)
    levels = rep if rep is not None else definition
    if levels is None:
        return EncodedPage(pb.PageLayout(constant_layout=kept), tuple(buffers), count)
    raveled, _ = keep_levels(tuple(parse_layers(layout.layers)), rep, definition, len(levels), keep)
    written = [_write(kept, which, part, version) for which, part in _parts(raveled)]
    return EncodedPage(pb.PageLayout(constant_layout=kept), (*value, *written), count)


def _parts(raveled: Raveled) -> list[tuple[str, Levels | None]]:
    return [("rep", raveled.rep), ("def", raveled.definition)]


def _read(layout: pb.ConstantLayout, which: str, data: Bytes) -> Levels | None:
    if not len(data):
        return None
    if not layout.HasField(f"{which}_compression"):  # type: ignore[arg-type] # one of two names
        if len(data) % 2:
            raise CorruptFileError(f"levels have {len(data)} bytes, not a multiple of 2")
        return np.frombuffer(data.tobytes(), dtype="<u2")
    count = int(getattr(layout, f"num_{which}_values"))
    if count > _MAX_ENTRIES:
        raise CorruptFileError(f"a constant page has {count} levels, which does not match its rows")
    values = decode_block(getattr(layout, f"{which}_compression"), data, count)
    if not isinstance(values, Fixed) or values.bits != 16:
        raise CorruptFileError("levels must be 16-bit integers")
    return as_words(values)


def _write(layout: pb.ConstantLayout, which: str, levels: Levels | None, version: str) -> Bytes:
    if levels is None:
        return np.empty(0, dtype=np.uint8)
    if version == "2.1" or not layout.HasField(f"{which}_compression"):  # type: ignore[arg-type] # one of two names
        layout.ClearField(f"{which}_compression")  # type: ignore[arg-type] # one of two names
        layout.ClearField(f"num_{which}_values")  # type: ignore[arg-type] # one of two names
        return np.ascontiguousarray(levels, dtype="<u2").view(np.uint8)
    block = compress_level_block(levels)
    getattr(layout, f"{which}_compression").CopyFrom(block.encoding)
    setattr(layout, f"num_{which}_values", block.count)
    return block.data
