"""Self-check of a written page before it is visible: refuse pages that other readers cannot read.

Checks use data of the writer and the headers of chunks; values are not decoded.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import ChunkBuffer, Chunks, decode_chunk_table, split_chunks
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.page_errors import broken
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]


_INDEX_WORD = 8


def check_page(page: EncodedPage, length: int, version: str, name: str) -> None:
    """Check a page of 2.1 or 2.2.

    Args:
        page: The page.
        length: Rows, or structs below fixed-size lists of structs.
        version: "2.1" or "2.2".
        name: Of the column, for the error.

    Raises:
        LanceOpsError: The page is inconsistent.
    """
    try:
        problem = _check_layout(page.layout, page.buffers, page.num_rows, length, version)
    except CorruptFileError as error:
        problem = error.message
    if problem is not None:
        raise broken(f"a page of {length} rows: {problem}", name)


def check_positions(positions: npt.NDArray[np.unsignedinteger], count: int, name: str) -> None:
    """Check that values point into their dictionary.

    Args:
        positions: One a value.
        count: Entries of the dictionary.
        name: Of the column, for the error.

    Raises:
        LanceOpsError: One does not.
    """
    if len(positions) and int(positions.max()) >= count:
        raise broken(f"a value points outside of its dictionary of {count} entries", name)


def _check_layout(
    layout: pb.PageLayout, buffers: Sequence[Bytes], num_rows: int, length: int, version: str
) -> str | None:
    kind = layout.WhichOneof("layout")
    if kind == "mini_block_layout":
        return _check_mini_block(layout.mini_block_layout, buffers, num_rows, length, version)
    if kind == "full_zip_layout":
        return _check_full_zip(layout.full_zip_layout, buffers, num_rows, length)
    if kind == "constant_layout":
        return _check_constant(layout.constant_layout, buffers, length, version)
    if kind == "blob_layout":
        return _check_layout(layout.blob_layout.inner_layout, buffers, num_rows, length, version)
    return f"the layout {kind!r}"


def _check_mini_block(
    layout: pb.MiniBlockLayout, buffers: Sequence[Bytes], num_rows: int, length: int, version: str
) -> str | None:
    wide = version != "2.1"
    has_index = layout.repetition_index_depth > 0
    has_rep = layout.HasField("rep_compression")
    wanted = 2 + layout.HasField("dictionary") + has_index
    if len(buffers) != wanted or layout.has_large_chunk != wide or has_index != has_rep:
        return f"{len(buffers)} buffers instead of {wanted}, or sizes of another version"
    if layout.HasField("dictionary") and not layout.num_dictionary_items:
        return "a dictionary without entries"
    word = 4 if wide else 2
    table = decode_chunk_table(buffers[0], word_bytes=word, num_values=layout.num_items, size=len(buffers[1]))
    counts = table.counts
    if int(table.sizes.sum()) != len(buffers[1]) or bool((counts[:-1] < 2).any()) or counts[-1] < 1:
        return f"{len(table)} chunks that do not add up"
    chunks = split_chunks(
        ChunkBuffer(buffers[1], table.starts, table.sizes),
        has_rep=has_rep,
        has_def=layout.HasField("def_compression"),
        num_buffers=layout.num_buffers,
        size_bytes=word,
    )
    return _check_levels(layout, chunks, counts, length) or (
        _check_index(buffers[-1], chunks, num_rows) if has_index else None
    )


def _check_levels(
    layout: pb.MiniBlockLayout, chunks: Chunks, counts: npt.NDArray[np.int64], length: int
) -> str | None:
    if chunks.rep is None and layout.num_items != length:
        return f"{layout.num_items} values"
    if chunks.rep is None and chunks.definition is None:
        return "levels without need" if bool(chunks.num_levels.any()) else None
    if bool((chunks.num_levels < counts).any()):
        return "fewer levels than values in a chunk"
    if chunks.rep is None and int(chunks.num_levels.sum()) != length:
        return f"{int(chunks.num_levels.sum())} levels"
    return None


def _check_index(index: Bytes, chunks: Chunks, num_rows: int) -> str | None:
    if len(index) != len(chunks.num_levels) * 2 * _INDEX_WORD:
        return f"a repetition index of {len(index)} bytes"
    entries = np.frombuffer(index.tobytes(), dtype="<u8").reshape(-1, 2)
    if int(entries[:, 0].sum()) != num_rows or entries[-1, 1]:
        return f"a repetition index of {int(entries[:, 0].sum())} rows"
    if bool((entries[:, 1] > chunks.num_levels.astype(np.uint64)).any()):
        return "a repetition index with more entries than levels"
    return None


def _check_full_zip(
    layout: pb.FullZipLayout, buffers: Sequence[Bytes], num_rows: int, length: int
) -> str | None:
    bits = layout.bits_rep + layout.bits_def
    control = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
    is_fixed = layout.WhichOneof("details") == "bits_per_value"
    if is_fixed and not layout.bits_rep:
        stride = control + layout.bits_per_value // 8
        if layout.bits_per_value % 8 or len(buffers) != 1 or len(buffers[0]) != stride * length:
            return f"values of {stride} bytes in {sum(map(len, buffers))} bytes"
        return None
    if len(buffers) != 2:
        return f"{len(buffers)} buffers"
    width, rest = divmod(len(buffers[1]), num_rows + 1)
    if rest or width not in (1, 2, 4, 8):
        return f"an index of {len(buffers[1])} bytes"
    starts = np.frombuffer(buffers[1].tobytes(), dtype=f"<u{width}").astype(np.int64)
    if starts[0] != 0 or int(starts[-1]) != len(buffers[0]) or bool((np.diff(starts) < 0).any()):
        return "rows that do not follow each other"
    if (control or not is_fixed) and bool((np.diff(starts) == 0).any()):
        return "a row without bytes"
    return None


def _check_constant(
    layout: pb.ConstantLayout, buffers: Sequence[Bytes], length: int, version: str
) -> str | None:
    has_value = layout.HasField("inline_value") or len(buffers) in (1, 3)
    if len(buffers) > 3 or (layout.HasField("inline_value") and len(buffers) not in (0, 2)):
        return f"{len(buffers)} buffers"
    if has_value and version == "2.1":
        return "a constant, which 2.1 does not have"
    if len(buffers) < 2:
        return None
    rep, definition = buffers[-2:]
    counts = [
        count if compressed else len(data) // 2
        for compressed, count, data in (
            (layout.HasField("rep_compression"), layout.num_rep_values, rep),
            (layout.HasField("def_compression"), layout.num_def_values, definition),
        )
        if len(data)
    ]
    if len(set(counts)) > 1 or (counts and counts[0] < length) or (not len(rep) and counts[:1] != [length]):
        return f"{counts} levels"
    return None
