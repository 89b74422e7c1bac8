"""Page descriptions of 2.3: those with levels become descriptions of 2.2, which have the same parts."""

from dataclasses import dataclass
from functools import lru_cache

from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError, LanceOpsError, UnsupportedError
from lance_ops.pb import encodings21_pb2 as pb
from lance_ops.pb import encodings23_pb2 as pb23

PLANAR_LAYOUT_URL = "/lance.encodings23.PlanarLayout"

# Bounds what is kept of descriptions: those that have a table of symbols are parsed each time.
_SMALL_LAYOUT = 512
_MAX_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ParsedLayout:
    """Parsed description of a page.

    Attributes:
        layout: As 2.2 describes it; empty of a page whose structure is sparse.
        sparse: Description of a page whose structure is sparse.
    """

    layout: pb.PageLayout
    sparse: pb23.PlanarLayout | None = None


def parse_planar(data: bytes) -> ParsedLayout:
    """Parse the description of a page.

    Raises:
        CorruptFileError: It is unreadable, or lacks a part.
        UnsupportedError: It has parts that are not known: 2.3 is not settled.
    """
    return _parse_recurring(data) if len(data) <= _SMALL_LAYOUT else _parse(data)


@lru_cache(maxsize=1024)
def _parse_recurring(data: bytes) -> ParsedLayout:
    return _parse(data)


def _parse(data: bytes) -> ParsedLayout:
    try:
        planar = pb23.PlanarLayout.FromString(data)
    except DecodeError as error:
        raise CorruptFileError(f"unreadable page layout: {error}") from error
    size = planar.ByteSize()
    planar.DiscardUnknownFields()  # type: ignore[attr-defined] # the stubs lack it
    if planar.ByteSize() != size:
        raise UnsupportedError(
            "a page of storage version 2.3 is described by parts that are not known",
            hint="2.3 is not final: files of other releases may differ; rewrite the table as 2.2 with "
            "the library that wrote it",
        )
    structure, values = planar.structure.WhichOneof("codec"), planar.values.WhichOneof("codec")
    if structure is None or values is None:
        raise CorruptFileError("a page layout without a structure or without values")
    if structure == "sparse":
        return ParsedLayout(pb.PageLayout(), planar)
    return ParsedLayout(_dense_layout(planar, values))


def _dense_layout(planar: pb23.PlanarLayout, kind: str) -> pb.PageLayout:
    """Return the description of a page with levels, as 2.2 has it."""
    layers = planar.structure.dense.layers
    if kind == "constant":
        if any(layer != pb.REPDEF_ALL_VALID_ITEM for layer in layers):
            raise CorruptFileError("a constant page of nulls or lists without levels")
        return pb.PageLayout(
            constant_layout=pb.ConstantLayout(layers=layers, inline_value=planar.values.constant.value)
        )
    if kind == "chunked":
        mini_block = mini_block_layout(planar.values.chunked, planar.values.chunked.num_items)
        levels = planar.values.chunked.levels
        if levels.HasField("rep_compression"):
            mini_block.rep_compression.CopyFrom(levels.rep_compression)
        if levels.HasField("def_compression"):
            mini_block.def_compression.CopyFrom(levels.def_compression)
        mini_block.repetition_index_depth = levels.repetition_index_depth
        mini_block.layers.extend(layers)
        return pb.PageLayout(mini_block_layout=mini_block)
    if kind == "zipped":
        full_zip = full_zip_layout(planar.values.zipped)
        full_zip.bits_rep = planar.values.zipped.levels.bits_rep
        full_zip.bits_def = planar.values.zipped.levels.bits_def
        full_zip.layers.extend(layers)
        return pb.PageLayout(full_zip_layout=full_zip)
    raise CorruptFileError("a page with levels but without values")


def mini_block_layout(values: pb23.ChunkedValues, count: int) -> pb.MiniBlockLayout:
    """Return the description of values in chunks, as 2.2 has it, without layers.

    Args:
        values: The description in 2.3.
        count: Number of values.
    """
    layout = pb.MiniBlockLayout(
        value_compression=values.compression,
        num_buffers=values.num_buffers,
        num_items=count,
        has_large_chunk=True,
    )
    if values.HasField("dictionary"):
        layout.dictionary.CopyFrom(values.dictionary)
        layout.num_dictionary_items = values.num_dictionary_items
    return layout


def full_zip_layout(values: pb23.ZippedValues) -> pb.FullZipLayout:
    """Return the description of values one by one, as 2.2 has it, without layers.

    Args:
        values: The description in 2.3.
    """
    if values.num_items > _MAX_COUNT or values.num_visible_items > _MAX_COUNT:
        raise CorruptFileError(f"a page of {values.num_items} values")
    layout = pb.FullZipLayout(
        value_compression=values.compression,
        num_items=values.num_items,
        num_visible_items=values.num_visible_items,
    )
    if values.WhichOneof("details") == "bits_per_value":
        layout.bits_per_value = values.bits_per_value
    else:
        layout.bits_per_offset = values.bits_per_offset
    return layout


def describe_planar(layout: pb.PageLayout) -> pb23.PlanarLayout:
    """Describe a page with levels that 2.2 describes as mini-blocks or full-zip values.

    Args:
        layout: The description in 2.2.
    """
    planar = pb23.PlanarLayout()
    if layout.WhichOneof("layout") == "full_zip_layout":
        full_zip, zipped = layout.full_zip_layout, planar.values.zipped
        planar.structure.dense.layers.extend(full_zip.layers)
        zipped.compression.CopyFrom(full_zip.value_compression)
        zipped.levels.SetInParent()
        zipped.levels.bits_rep, zipped.levels.bits_def = full_zip.bits_rep, full_zip.bits_def
        zipped.num_items, zipped.num_visible_items = full_zip.num_items, full_zip.num_visible_items
        if full_zip.WhichOneof("details") == "bits_per_value":
            zipped.bits_per_value = full_zip.bits_per_value
        else:
            zipped.bits_per_offset = full_zip.bits_per_offset
        return planar
    if layout.WhichOneof("layout") != "mini_block_layout" or not layout.mini_block_layout.has_large_chunk:
        raise LanceOpsError(f"pages of 2.3 are not described as {layout.WhichOneof('layout')}")
    mini_block, chunked = layout.mini_block_layout, planar.values.chunked
    planar.structure.dense.layers.extend(mini_block.layers)
    chunked.compression.CopyFrom(mini_block.value_compression)
    chunked.levels.SetInParent()
    if mini_block.HasField("rep_compression"):
        chunked.levels.rep_compression.CopyFrom(mini_block.rep_compression)
    if mini_block.HasField("def_compression"):
        chunked.levels.def_compression.CopyFrom(mini_block.def_compression)
    chunked.levels.repetition_index_depth = mini_block.repetition_index_depth
    if mini_block.HasField("dictionary"):
        chunked.dictionary.CopyFrom(mini_block.dictionary)
        chunked.num_dictionary_items = mini_block.num_dictionary_items
    chunked.num_buffers, chunked.num_items = mini_block.num_buffers, mini_block.num_items
    return planar
