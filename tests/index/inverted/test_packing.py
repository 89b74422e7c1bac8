"""Integers in blocks, and posting lists with their positions, come back as they were."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import CorruptFileError
from lance_ops.index.inverted import packing, positions, postings
from lance_ops.index.inverted.positions import ListedPositions, StreamedPositions
from lance_ops.index.inverted.posting_encoder import encode
from lance_ops.index.inverted.postings import PostingFormat
from tests.safety.profile import examples

FORMS = [PostingFormat(), PostingFormat(varint_tail=True), PostingFormat(256, True)]
_u32 = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("block_size", [128, 256])
@pytest.mark.parametrize("width", range(33))
def test_blocks_of_every_width_come_back(width: int, block_size: int) -> None:
    generator = np.random.default_rng(width)
    values = generator.integers(0, 2**width, (3, block_size), np.uint64).astype(np.uint32)
    values[:, 7] = (1 << width) - 1
    widths = packing.widths_of(values)
    assert set(widths.tolist()) == {width}
    size = int(packing.packed_bytes(width, block_size))
    starts = np.arange(3) * (size + 5)
    data = np.zeros(3 * (size + 5), np.uint8)
    packing.pack_into(data, starts, values, widths)
    assert np.array_equal(packing.unpack(data, starts, widths, block_size), values)


def test_a_value_lies_in_the_lane_of_its_number() -> None:
    values = np.zeros((1, 128), np.uint32)
    values[0, 5] = 1
    data = np.zeros(16, np.uint8)
    packing.pack_into(data, np.array([0]), values, np.array([1], np.uint8))
    # Value 5 is the second one of lane 1: bit 1 of the second word.
    assert data.view("<u4").tolist() == [0, 2, 0, 0]


@given(values=st.lists(_u32))
def test_varints_come_back(values: list[int]) -> None:
    numbers = np.array(values, np.uint32)
    sizes = packing.varint_sizes(numbers)
    data = np.zeros(int(sizes.sum()) + 3, np.uint8)
    packing.write_varints(data, np.cumsum(sizes) - sizes, numbers)
    found, size = packing.read_varints(data, len(numbers), "x")
    assert found.tolist() == values
    assert size == sizes.sum()


def test_varints_that_are_cut_off_or_endless_are_damage() -> None:
    for data in (b"\x80", b"\x80" * 9, b"\x80\x80\x80\x80\x80\x01", b""):
        with pytest.raises(CorruptFileError):
            packing.read_varints(np.frombuffer(data, np.uint8), 1, "x")


@st.composite
def _words(draw: st.DrawFn) -> list[list[tuple[int, list[int]]]]:
    """For each word the documents that hold it, with the positions in them."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    words = []
    for length in draw(st.lists(st.sampled_from([1, 2, 5, 127, 128, 129, 300]), min_size=1, max_size=4)):
        documents = np.sort(
            generator.choice(draw(st.sampled_from([length, 1000, 2**31])), length, replace=False)
        )
        held = []
        for document in documents.tolist():
            count = int(generator.choice([1, 1, 1, 2, 3, 130 if length < 6 else 4]))
            held.append((document, np.sort(generator.choice(10_000, count, replace=False)).tolist()))
        words.append(held)
    return words


@given(words=_words(), form=st.sampled_from(FORMS))
@examples(40)
def test_posting_lists_come_back_with_their_positions(
    words: list[list[tuple[int, list[int]]]], form: PostingFormat
) -> None:
    documents = np.array([document for held in words for document, _ in held], np.uint32)
    counts = np.array([len(places) for held in words for _, places in held], np.uint32)
    lengths = np.array([len(held) for held in words], np.int64)
    places = np.array([place for held in words for _, own in held for place in own], np.uint32)
    scores = np.linspace(0, 1, len(documents), dtype=np.float32)
    encoded = encode(documents, counts, scores, lengths, form)
    together = postings.decode_many(encoded.blocks.flatten(), lengths, form, "x")
    assert together.documents.tolist() == documents.tolist()
    assert together.counts.tolist() == counts.tolist()
    lists = positions.encode_lists(places, counts.astype(np.int64), lengths)
    streams, offsets = positions.encode_streams(places, counts.astype(np.int64), lengths, form.block_size)
    ends = np.cumsum(lengths)
    assert encoded.best.tolist() == [scores[end - 1] for end in ends]
    for number, held in enumerate(words):
        one = postings.decode_many(encoded.blocks[number].values, np.array([len(held)]), form, "x")
        assert one.documents.tolist() == [document for document, _ in held]
        some = np.arange(0, len(held), 2)
        wanted = [place for n in some for place in held[n][1]]
        listed = ListedPositions(lists[number].values, one.counts, "x")
        streamed = StreamedPositions(
            streams[number].as_py(),
            np.array(offsets[number].as_py(), np.uint32),
            one.counts,
            form.block_size,
            True,
            "x",
        )
        for layout in (listed, streamed):
            found, sizes = layout.of(some)
            assert found.tolist() == wanted
            assert sizes.tolist() == [len(held[n][1]) for n in some]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_posting_list_that_is_cut_off_is_damage(form: PostingFormat) -> None:
    documents = np.arange(300, dtype=np.uint32) * 3
    counts = np.ones(300, np.uint32)
    counts[7] = 1000
    encoded = encode(documents, counts, counts.astype(np.float32), np.array([300]), form)
    blocks = encoded.blocks[0].as_py()
    for number, block in enumerate(blocks):
        for size in range(len(block)):
            cut = [*blocks[:number], block[:size], *blocks[number + 1 :]]
            with pytest.raises(CorruptFileError):
                postings.decode_many(pa.array(cut, pa.large_binary()), np.array([300]), form, "x")
    for length in (0, 1, 128, 256, 299, 301, 1000):
        with pytest.raises(CorruptFileError):
            postings.decode_many(pa.array(blocks, pa.large_binary()), np.array([length]), form, "x")
