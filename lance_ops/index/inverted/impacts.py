"""Impacts: upper bounds of the scores of each block of a posting list, independent of the rest of the index.

An entry has the last document of its range, and the Pareto-optimal pairs of token count and document size, by
ascending counts. Sizes are codes of a byte. A token has one entry for each block, and one for every 32
blocks. pylance uses them to skip blocks; the format has them since version 3, whose large blocks have no
score.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.index.inverted import packing
from lance_ops.index.inverted.packing import Ints, Words

_BLOCKS = 32
"""Blocks of an entry of the second level."""
_COUNT_BITS, _CODE_BITS = 32, 8


def size_codes(sizes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """Return codes of the sizes of documents: how often they are halved, and their four highest bits."""
    bits = np.frexp(sizes.astype(np.float64))[1]
    shift = np.maximum(bits - 4, 0).astype(np.uint32)
    return np.asarray((shift << np.uint32(3)) + (sizes >> shift), np.uint8)


def encode_impacts(
    documents: Words, counts: Words, codes: npt.NDArray[np.uint8], lengths: Ints, block_size: int
) -> pa.ListArray:
    """Return the entries of several words, one list of large_binary a word.

    Args:
        documents: Of all words, those of one ascending.
        counts: How often each holds the word.
        codes: Code of the size of each, see `size_codes`.
        lengths: Documents of each word, none without.
        block_size: Documents of a full block.
    """
    blocks, groups = -(-lengths // block_size), -(-lengths // (block_size * _BLOCKS))
    entries = pa.concat_arrays(
        [
            _entries(documents, counts, codes, lengths, block_size),
            _entries(documents, counts, codes, lengths, block_size * _BLOCKS),
        ]
    )
    bounds = np.concatenate(([0], np.cumsum(blocks + groups)))
    of_blocks, _ = packing.expand(bounds[:-1], blocks)
    of_groups, _ = packing.expand(bounds[:-1] + blocks, groups)
    order = np.empty(bounds[-1], np.int64)
    order[of_blocks] = np.arange(len(of_blocks))
    order[of_groups] = len(of_blocks) + np.arange(len(of_groups))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), entries.take(pa.array(order)))


def _entries(
    documents: Words, counts: Words, codes: npt.NDArray[np.uint8], lengths: Ints, held: int
) -> pa.LargeBinaryArray:
    """Return an entry for each `held` documents of a word."""
    parts = -(-lengths // held)
    word = np.repeat(np.arange(len(lengths)), parts)
    ends = np.cumsum(lengths)
    start = (ends - lengths)[word] + packing.offsets_in_owner(np.full(len(word), held), word)
    stop = np.minimum(start + held, ends[word])
    owner, pair_counts, pair_codes = _frontier(counts, codes, stop - start)

    first = np.ones(len(owner), np.bool_)
    first[1:] = owner[1:] != owner[:-1]
    count_steps = np.where(first, pair_counts, np.diff(pair_counts, prepend=0))
    code_steps = np.where(first, pair_codes, np.diff(pair_codes, prepend=0))
    has_code = code_steps != 1
    steps = ((count_steps - 1) << 1 | has_code).astype(np.uint32)
    step_sizes = packing.varint_sizes(steps)

    last = documents[stop - 1]
    pairs = np.bincount(owner, minlength=len(start)).astype(np.uint32)
    heads = packing.varint_sizes(last), packing.varint_sizes(pairs)
    sizes = sum(heads) + np.bincount(owner, step_sizes + has_code, len(start)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    output = np.zeros(offsets[-1], np.uint8)
    packing.write_varints(output, offsets[:-1], last)
    packing.write_varints(output, offsets[:-1] + heads[0], pairs)
    at = (offsets[:-1] + sum(heads))[owner] + packing.offsets_in_owner(step_sizes + has_code, owner)
    packing.write_varints(output, at, steps)
    output[(at + step_sizes)[has_code]] = code_steps[has_code]
    return packing.large_binary(offsets, output)


def _frontier(counts: Words, codes: npt.NDArray[np.uint8], sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """Pairs that no other of their range beats, by ascending counts: range, count and code of each.

    Args:
        counts: Of all ranges, in sequence.
        codes: The same.
        sizes: Documents of each range.
    """
    greatest = (1 << _COUNT_BITS) - 1
    keys = np.repeat(np.arange(len(sizes)), sizes) << _CODE_BITS | codes
    keys = keys << _COUNT_BITS | (greatest - counts.astype(np.int64))
    keys.sort()
    found = greatest - (keys & greatest)
    owner = keys >> (_CODE_BITS + _COUNT_BITS)
    # By ascending codes a pair is kept if its count exceeds those of all previous pairs.
    marks = owner << _COUNT_BITS | found
    kept = np.ones(len(marks), np.bool_)
    kept[1:] = marks[1:] > np.maximum.accumulate(marks)[:-1]
    code = keys >> _COUNT_BITS & ((1 << _CODE_BITS) - 1)
    return owner[kept], found[kept], code[kept]
