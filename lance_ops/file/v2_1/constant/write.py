"""Constant pages, written: pages of nulls, and since 2.2 pages of one value that is repeated."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.pages.levels import Levels
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.file.v2_1.columns import layer_codes
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.compression.levels import compress_level_block
from lance_ops.file.v2_1.constant.detect import Constant
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]

_MAX_INLINE_BYTES = 32
_FIRST_LEVELS = 1 << 10


def is_all_null(raveled: Raveled) -> bool:
    """Return whether no entry has a value that is not null."""
    if raveled.definition is None:
        return raveled.num_entries == 0
    # Most pages begin with a value soon.
    first, rest = raveled.definition[:_FIRST_LEVELS], raveled.definition[_FIRST_LEVELS:]
    return not bool((first == 0).any()) and not bool((rest == 0).any())


def encode_null_page(raveled: Raveled, version: str) -> EncodedPage:
    """Build a page without any value.

    Args:
        raveled: Its levels.
        version: "2.1" or "2.2".
    """
    if raveled.rep is None and len(raveled.layers) == 1:
        return encode_empty_page(raveled)
    layout = pb.ConstantLayout(layers=layer_codes(raveled.layers))
    return _page(layout, _levels(layout, raveled, version), raveled)


def encode_empty_page(raveled: Raveled) -> EncodedPage:
    """Build a page that has only its length: nulls at the top level, or empty structs anywhere."""
    layout = pb.ConstantLayout(layers=[pb.REPDEF_NULLABLE_ITEM])
    return _page(layout, (), raveled)


def encode_constant_page(raveled: Raveled, value: Constant) -> EncodedPage:
    """Build a page of one value.

    Args:
        raveled: Its levels, always plain: readers support no others together with a value.
        value: Result of `find_constant`.
    """
    layout = pb.ConstantLayout(layers=layer_codes(raveled.layers))
    buffers: tuple[Bytes, ...] = ()
    if value.is_fixed and len(value.parts[0]) <= _MAX_INLINE_BYTES:
        layout.inline_value = value.parts[0]
    else:
        sizes = [len(value.parts), *map(len, value.parts)]
        stored = np.array(sizes, dtype="<u4").tobytes() + b"".join(value.parts)
        buffers = (np.frombuffer(stored, dtype=np.uint8),)
    if raveled.rep is not None or raveled.definition is not None:
        buffers += (_plain(raveled.rep), _plain(raveled.definition))
    return _page(layout, buffers, raveled)


def _levels(layout: pb.ConstantLayout, raveled: Raveled, version: str) -> tuple[Bytes, Bytes]:
    parts = []
    for which, levels in (("rep", raveled.rep), ("def", raveled.definition)):
        if levels is None or version == "2.1":
            # The first readers of 2.1 support plain levels only.
            parts.append(_plain(levels))
        else:
            block = compress_level_block(levels, version)
            getattr(layout, f"{which}_compression").CopyFrom(block.encoding)
            setattr(layout, f"num_{which}_values", block.count)
            parts.append(block.data)
    return parts[0], parts[1]


def _plain(levels: Levels | None) -> Bytes:
    if levels is None:
        return np.empty(0, dtype=np.uint8)
    return np.ascontiguousarray(levels, dtype="<u2").view(np.uint8)


def _page(layout: pb.ConstantLayout, buffers: tuple[Bytes, ...], raveled: Raveled) -> EncodedPage:
    return EncodedPage(pb.PageLayout(constant_layout=layout), buffers, raveled.num_rows)
