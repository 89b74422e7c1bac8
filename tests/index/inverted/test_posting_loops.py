"""Posting lists by compiled loops: the same bytes and numbers as by the oracle, whatever the bytes are."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.errors import CorruptFileError
from lance_ops.index.inverted.packing import large_binary
from lance_ops.index.inverted.posting_encoder import encode
from lance_ops.index.inverted.postings import PostingFormat, decode_many
from tests.index.inverted import posting_oracle

FORMS = [PostingFormat(), PostingFormat(varint_tail=True), PostingFormat(256, True)]


@st.composite
def lists(draw):
    """Documents, counts and scores of some lists, and how long each is."""
    lengths = draw(st.lists(st.sampled_from([1, 5, 127, 128, 129, 256, 600]), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    step = draw(st.sampled_from([1, 7, 1000, 5_000_000]))
    documents = [rng.integers(0, 50) + np.cumsum(rng.integers(1, step + 1, length)) for length in lengths]
    counts = rng.integers(1, draw(st.sampled_from([2, 9, 2**31])), sum(lengths))
    # A few that are far above the others.
    rare = rng.random(sum(lengths)) < draw(st.sampled_from([0, 0.01, 0.15]))
    counts[rare] = rng.integers(1, 2**32, np.count_nonzero(rare))
    return (
        np.concatenate(documents).astype(np.uint32),
        counts.astype(np.uint32),
        rng.random(sum(lengths)).astype(np.float32),
        np.array(lengths, np.int64),
    )


def plainly(blocks, lengths, form):
    try:
        found = decode_many(blocks, lengths, form, "part_0_invert.lance")
    except CorruptFileError:
        return "corrupt"
    return found.documents.tolist(), found.counts.tolist()


def by_oracle(blocks, lengths, form):
    _, offsets, data = blocks.buffers()
    held = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    places = np.frombuffer(offsets, np.int64)[blocks.offset : blocks.offset + len(blocks) + 1]
    try:
        documents, counts = posting_oracle.decode(held, places, lengths, form)
    except CorruptFileError:
        return "corrupt"
    return documents.tolist(), counts.tolist()


@settings(deadline=None, max_examples=60)
@given(
    made=lists(),
    form=st.sampled_from(FORMS),
    damage=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3),
)
def test_compiled_loops_write_and_read_what_the_oracle_does(made, form, damage):
    documents, counts, scores, lengths = made
    compiled = encode(documents, counts, scores, lengths, form)
    output, offsets, _ = posting_oracle.encode(documents, counts, scores, lengths, form)
    blocks = compiled.blocks.flatten()
    assert blocks.equals(large_binary(offsets, output))
    firsts = np.cumsum(lengths) - lengths
    assert compiled.best.tolist() == np.maximum.reduceat(scores, firsts).tolist()

    assert plainly(blocks, lengths, form) == (documents.tolist(), counts.tolist())
    joined = bytearray(b"".join(blocks.to_pylist()))
    for place, byte in damage:
        joined[place % len(joined)] = byte
    offsets = np.cumsum([0, *(len(block) for block in blocks.to_pylist())], dtype=np.int64)
    damaged = large_binary(offsets, np.frombuffer(bytes(joined), np.uint8))
    assert plainly(damaged, lengths, form) == by_oracle(damaged, lengths, form)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), blocks=st.integers(1, 3))
def test_large_blocks_of_any_bytes_read_the_same(seed, blocks):
    """Also those that nothing here would write."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(blocks):
        width, exceptions = int(rng.integers(0, 4)), int(rng.integers(0, 3))
        head = rng.integers(0, 100, 4).astype(np.uint8).tobytes() + bytes([1]) + b"\xff" * 32
        upper = b"".join(
            bytes([int(rng.integers(0, 256)), int(rng.integers(0, 128))]) for _ in range(exceptions)
        )
        parts.append(head + bytes([width, exceptions]) + rng.bytes(32 * width) + upper)
    form = PostingFormat(block_size=256, varint_tail=True)
    lengths = np.full(blocks, 256, np.int64)
    stored = pa.array(parts, pa.large_binary())
    assert plainly(stored, lengths, form) == by_oracle(stored, lengths, form)
