"""Random arguments for the functions of kernels, and what of their work an oracle has to do alike."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lance_ops.encoding import kernels
from lance_ops.encoding.kernels import chunks, lz4, steps
from lance_ops.encoding.kernels.bits import bitpacking, byte_stream_split, level_packing, rle
from lance_ops.encoding.kernels.fsst import decode as fsst_decode
from lance_ops.encoding.kernels.index import (
    address_map,
    code_distances,
    fst,
    fst_words,
    graph,
    rabit,
    split_block,
    text_scores,
    xxhash64,
)
from lance_ops.encoding.kernels.pages import full_zip_decode, full_zip_encode, levels, page_copy, ravel
from lance_ops.encoding.kernels.values import (
    end_offsets_decode,
    end_offsets_encode,
    lookup,
    numbering,
    utf8,
    variable,
)
from lance_ops.encoding.row_blocks import RowBlocks

Arguments = dict[str, Any]


def technique_of(module: str) -> str:
    """The name of a technique, from that of its module."""
    return module.removeprefix(f"{kernels.__name__}.")


def _all(arguments: Arguments, answer: Any) -> Any:
    return [values.tobytes() for values in arguments.values() if isinstance(values, np.ndarray)]


@dataclass(frozen=True)
class Case:
    """A function, its arguments, and what it fills in where its answer is not that something is wrong."""

    function: FunctionType
    arguments: st.SearchStrategy[Arguments]
    filled: Callable[[Arguments, Any], Any] = _all
    wrong: Callable[[Any], bool] = lambda answer: answer is not None and answer < 0

    def run(self, arguments: Arguments, function: Callable[..., Any]) -> tuple[Any, Any]:
        own = {
            key: value.copy() if isinstance(value, np.ndarray) else value for key, value in arguments.items()
        }
        answer = function(**own)
        shown = [np.asarray(part).tolist() for part in answer] if isinstance(answer, tuple) else answer
        return shown, None if self.wrong(answer) else self.filled(own, answer)

    def __str__(self) -> str:
        return f"{technique_of(self.function.__module__)}.{self.function.__name__}"


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def random_bytes(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(0, 256, size).astype(np.uint8)


rngs = st.integers(0, 2**32 - 1).map(np.random.default_rng)
"""Most arguments are drawn by a seed: values matter less than how many there are of each."""


@st.composite
def coded_vectors(draw: st.DrawFn) -> Arguments:
    rows, parts = draw(st.integers(0, 20)), draw(st.integers(1, 20))
    words = draw(st.sampled_from([16, 256]))
    rng = draw(rngs)
    codes = rng.integers(0, words, (rows, parts)).astype(np.uint8)
    table = rng.normal(size=(parts, words)).astype(np.float32)
    return {"codes": codes, "table": table, "sums": rng.random(rows).astype(np.float32)}


@st.composite
def whole_vectors(draw: st.DrawFn) -> Arguments:
    # Sums of whole numbers are the same in any order.
    rows, dimension = draw(st.integers(0, 6)), draw(st.integers(1, 70))
    rng = draw(rngs)
    vectors = rng.integers(-50, 50, (rows, dimension)).astype(np.float32)
    query = rng.integers(-50, 50, dimension).astype(np.float32)
    return {"vectors": vectors, "query": query, "sums": np.zeros(rows, np.float32)}


@st.composite
def pairs_of_vectors(draw: st.DrawFn) -> Arguments:
    # Sums of whole numbers are the same in any order.
    rows, dimension, pairs = draw(st.integers(1, 6)), draw(st.integers(1, 70)), draw(st.integers(0, 9))
    rng = draw(rngs)
    return {
        "vectors": rng.integers(-50, 50, (rows, dimension)).astype(np.float32),
        "ones": rng.integers(0, rows, pairs),
        "others": rng.integers(0, rows, pairs),
        "squared": draw(st.booleans()),
        "sums": np.zeros(pairs, np.float32),
    }


@st.composite
def near_rows(draw: st.DrawFn) -> Arguments:
    # Whole numbers are as far from one another as others are, more often than not.
    rows, width = draw(st.integers(0, 40)), draw(st.integers(1, 8))
    rng = draw(rngs)
    places = rng.integers(0, draw(st.sampled_from([2, 100])), (rows, 2))
    apart = places[:, None] - places[None]
    return {
        "distances": (apart**2).sum(axis=2).astype(np.float32),
        "levels": rng.integers(0, 3, rows),
        "level": draw(st.integers(0, 3)),
        "fresh": draw(st.integers(1, width)),
        "width": width,
        "candidates": draw(st.integers(1, 50)),
        "neighbours": np.full((rows, width + 1), -1, np.int32),
        "lengths": np.zeros((rows, width + 1), np.float32),
    }


@st.composite
def codebooks(draw: st.DrawFn) -> Arguments:
    count, parts, width = draw(st.integers(0, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 9))
    words = draw(st.sampled_from([16, 256]))
    rng = draw(rngs)
    return {
        "words": rng.normal(size=(parts, width, words)).astype(np.float32),
        "vectors": rng.normal(size=(count, parts, width)).astype(np.float32),
        "squared": draw(st.booleans()),
        "tables": np.ones((count, parts, words), np.float32),
    }


@st.composite
def vectors_of_bytes(draw: st.DrawFn) -> Arguments:
    # Past 65,536 dimensions sums need more than 32 bits.
    rows, dimension = draw(st.integers(0, 6)), draw(st.sampled_from([1, 7, 128, 70_000]))
    rng = draw(rngs)
    codes = rng.integers(0, 256, (rows, dimension)).astype(np.uint8)
    query = np.full(dimension, 255, np.uint8) if draw(st.booleans()) else random_bytes(rng, dimension)
    return {
        "codes": codes * np.uint8(draw(st.integers(0, 1))),
        "query": query,
        "sums": np.zeros(rows, np.int64),
    }


@st.composite
def followed_rows(draw: st.DrawFn) -> Arguments:
    """Addresses in and beside fragments that were rewritten; few lie behind the last row of one."""
    rng, count = draw(rngs), draw(st.integers(0, 4))
    old_ids = np.sort(rng.choice(9, count, replace=False)).astype(np.uint64)
    old_rows = rng.integers(0, rng.choice([40, 200]), count)
    some = rng.choice([0.02, 0.3])
    deleted = [
        np.flatnonzero(rng.random(rows) < rng.choice([0, some, 1], p=[0.4, 0.4, 0.2])) for rows in old_rows
    ]
    survivors = old_rows - numbers(*map(len, deleted))
    order = rng.permutation(count)
    first_rank = np.zeros(count, np.int64)
    first_rank[order] = np.cumsum(survivors[order]) - survivors[order]
    cuts = np.unique(rng.integers(0, max(int(survivors.sum()), 1), 2))
    new_start = np.unique(np.append(0, cuts)) if survivors.sum() else numbers()
    rows = rng.choice([3, 30, 201], p=[0.5, 0.45, 0.05])
    addresses = rng.integers(0, 10, 60).astype(np.uint64) << np.uint64(32)
    addresses |= rng.integers(0, rows, 60).astype(np.uint64)
    counts = numbers(*map(len, deleted))
    offsets = [part.astype(np.uint32) for part in deleted]
    return {
        "addresses": np.sort(addresses) if draw(st.booleans()) else addresses,
        "old_ids": old_ids,
        "old_rows": old_rows,
        "first_rank": first_rank,
        "deleted_stops": np.cumsum(counts),
        "blocks": RowBlocks.of(rows=old_rows, counts=counts, offsets=offsets.__getitem__),
        "new_start": new_start,
        "new_ids": np.arange(20, 20 + len(new_start)).astype(np.uint64),
        "mapped": np.zeros(60, np.uint64),
        "kept": np.zeros(60, np.bool_),
    }


def _followed(arguments: Arguments, _: Any) -> Any:
    kept = arguments["kept"]
    return kept.tolist(), arguments["mapped"][kept].tolist()


@st.composite
def limited_rows(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    owners = rng.choice([0, 1, 2, 0xFFFF_FFFF], 30).astype(np.uint64)
    return {
        "addresses": owners << np.uint64(32) | rng.integers(0, 9, 30).astype(np.uint64),
        "limits": rng.integers(7, 12, draw(st.integers(2, 4))),
    }


@st.composite
def rising(draw: st.DrawFn) -> Arguments:
    step = draw(st.integers(-5, 5))
    found = (np.arange(draw(st.integers(0, 50))) * step).astype(draw(st.sampled_from([np.int32, np.int64])))
    if len(found) and draw(st.booleans()):
        found[draw(st.integers(0, len(found) - 1))] += draw(st.integers(-1, 1))
    return {"numbers": found, "step": step}


@st.composite
def byte_strings(draw: st.DrawFn) -> Arguments:
    lengths = draw(st.lists(st.integers(0, 100), max_size=10))
    first = draw(st.integers(0, 5))
    offsets = np.cumsum([first, *lengths]).astype(draw(st.sampled_from([np.int32, np.int64])))
    data = random_bytes(draw(rngs), int(offsets[-1]))
    return {"data": data, "offsets": offsets, "hashes": np.empty(len(lengths), np.uint64)}


@st.composite
def filtered_runs(draw: st.DrawFn) -> Arguments:
    ends = np.cumsum(draw(st.lists(st.integers(0, 30), max_size=5)), dtype=np.int64)
    count = int(ends[-1]) if len(ends) else 0
    hashes = draw(rngs).integers(0, 2**64, count, np.uint64)
    words = np.zeros((len(ends), 8 * draw(st.sampled_from([1, 2, 64]))), np.uint32)
    return {"hashes": hashes, "ends": ends, "words": words}


@st.composite
def lz4_blocks(draw: st.DrawFn) -> Arguments:
    import pyarrow as pa

    plain = draw(st.binary(max_size=40)) * draw(st.integers(1, 20))
    block = np.frombuffer(pa.Codec("lz4_raw").compress(plain), dtype=np.uint8).copy()
    if len(block) and draw(st.booleans()):
        block[draw(st.integers(0, len(block) - 1))] = draw(st.integers(0, 255))
    return {"block": block, "size": len(plain) + draw(st.sampled_from([0, 0, 1, -1]))}


@st.composite
def run_lengths(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    runs = rng.integers(0, 6, draw(st.integers(0, 8)))
    lengths = random_bytes(rng, int(runs.sum()) + 3)
    values = rng.integers(0, 200, len(lengths)).astype(draw(st.sampled_from(["<u1", "<u2", "<u4", "<u8"])))
    ends = np.cumsum(runs)
    counts = np.array([int(lengths[end - count : end].sum()) for end, count in zip(ends, runs, strict=True)])
    counts = counts.astype(np.int64)
    if len(counts) and draw(st.booleans()):
        counts[draw(st.integers(0, len(counts) - 1))] += 1
    return {
        "values": values,
        "firsts": ends - runs,
        "runs": runs,
        "lengths": lengths,
        "length_firsts": ends - runs,
        "counts": counts,
        "target": np.zeros(int(counts.sum()) + rle.SLACK, dtype=values.dtype),
    }


@st.composite
def streams(draw: st.DrawFn, *, joined: bool) -> Arguments:
    rng, width = draw(rngs), draw(st.sampled_from([1, 2, 3, 4, 8]))
    counts = rng.integers(0, 20, draw(st.integers(0, 5)))
    sizes = counts * width
    plain, room = random_bytes(rng, int(sizes.sum())), np.zeros(int(sizes.sum()), dtype=np.uint8)
    if not joined:
        return {"values": plain, "counts": counts, "width": width, "data": room}
    starts = np.cumsum(sizes) - sizes
    return {"data": plain, "starts": starts, "counts": counts, "width": width, "values": room}


def _blocks(rng: np.random.Generator, bits: int, widths: np.ndarray) -> np.ndarray:
    """Random values of these widths, as words."""
    values = rng.integers(0, 2**64, (len(widths), 1024), dtype=np.uint64)
    shifts = (64 - widths).astype(np.uint64)[:, np.newaxis]
    values = np.where(shifts == 64, np.uint64(0), values >> np.minimum(shifts, np.uint64(63)))
    return values.astype(f"<u{bits // 8}").reshape(-1).view(np.uint64)


widths_of_words = st.sampled_from([8, 16, 32, 64])


@st.composite
def packed_blocks(draw: st.DrawFn) -> Arguments:
    rng, bits = draw(rngs), draw(widths_of_words)
    widths = rng.integers(0, bits + 1, draw(st.integers(0, 4)))
    starts = np.cumsum(16 * widths) - 16 * widths + draw(st.integers(0, 3))
    words = rng.integers(0, 2**64, int(16 * widths.sum()) + 4, dtype=np.uint64)
    values = np.zeros(16 * bits * len(widths), dtype=np.uint64)
    return {"packed": words, "starts": starts, "widths": widths, "bits": bits, "values": values}


@st.composite
def inline_blocks(draw: st.DrawFn) -> Arguments:
    rng, bits = draw(rngs), draw(widths_of_words)
    widths = rng.integers(0, bits + 1, draw(st.integers(0, 4)))
    sizes = 128 * widths + bits // 8
    gaps = (sizes + 7) & -8
    lead = draw(st.sampled_from([0, 0, 3]))
    starts = np.cumsum(gaps) - gaps + lead
    data = random_bytes(rng, int(gaps.sum()) + lead)
    for start, width in zip(starts.tolist(), widths.tolist(), strict=True):
        data[start : start + bits // 8] = 0
        data[start] = width
    if len(widths):
        which = draw(st.integers(0, len(widths) - 1))
        if draw(st.booleans()):
            data[starts[which]] = draw(st.integers(0, 255))
        if draw(st.booleans()):
            sizes[which] = draw(st.integers(0, int(sizes[which])))
        starts[which] += draw(st.sampled_from([0, 0, 0, 1, -1, 1000000]))
    offset = (lead + bits // 8) & 7
    packed = data[offset : offset + (len(data) - offset) // 8 * 8].copy().view(np.uint64)
    counts = rng.choice([1024, 1024, 0, 1, 777], len(widths))
    values = np.zeros(-(-int(counts.sum()) * bits // 64), dtype=np.uint64)
    return {
        "data": data,
        "packed": packed,
        "offset": offset,
        "starts": starts,
        "sizes": sizes,
        "counts": counts,
        "bits": bits,
        "values": values,
    }


@st.composite
def plain_blocks(draw: st.DrawFn) -> Arguments:
    rng, bits = draw(rngs), draw(widths_of_words)
    widths = rng.integers(0, bits + 1, draw(st.integers(0, 4)))
    starts = np.cumsum(16 * widths) - 16 * widths + draw(st.integers(0, 3))
    packed = rng.integers(0, 2**64, int(16 * widths.sum()) + 4, dtype=np.uint64)
    values = _blocks(rng, bits, widths)
    return {"values": values, "starts": starts, "widths": widths, "bits": bits, "packed": packed}


@st.composite
def measured_blocks(draw: st.DrawFn) -> Arguments:
    rng, bits = draw(rngs), draw(widths_of_words)
    widths = rng.integers(0, bits + 1, draw(st.integers(0, 4)))
    return {
        "values": _blocks(rng, bits, widths),
        "bits": bits,
        "found": np.zeros(len(widths), dtype=np.int64),
    }


@st.composite
def moved_parts(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    sizes = rng.integers(0, 40, draw(st.integers(0, 6)))
    data = random_bytes(rng, 60)
    starts = np.array([rng.integers(0, 61 - size) for size in sizes], dtype=np.int64)
    gaps = rng.integers(0, 5, len(sizes))
    positions = np.cumsum(sizes + gaps) - sizes
    target = np.zeros(int((sizes + gaps).sum()) + 3, dtype=np.uint8)
    return {"data": data, "starts": starts, "sizes": sizes, "target": target, "positions": positions}


@st.composite
def divided_chunks(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    num_levels, num_buffers = draw(st.integers(0, 2)), draw(st.integers(0, 3))
    size_bytes = draw(st.sampled_from([2, 4]))
    starts, pieces, sizes = [], b"", []
    for _ in range(draw(st.integers(0, 4))):
        widths = [2] * num_levels + [size_bytes] * num_buffers
        parts = rng.integers(0, 30, len(widths)).tolist()
        chunk = int(rng.integers(0, 1000)).to_bytes(2, "little")
        chunk += b"".join(size.to_bytes(width, "little") for size, width in zip(parts, widths, strict=True))
        chunk += bytes(-len(chunk) % 8)
        for size in parts:
            chunk += bytes(size + -size % 8)
        starts.append(len(pieces))
        sizes.append(len(chunk))
        pieces += chunk
    data = np.frombuffer(pieces, dtype=np.uint8).copy()
    if starts and draw(st.booleans()):
        which = draw(st.integers(0, len(starts) - 1))
        sizes[which] = draw(st.integers(0, sizes[which] + 8))
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    shape = (num_levels + num_buffers, len(starts))
    return {
        "data": data,
        "starts": numbers(*starts),
        "sizes": numbers(*sizes),
        "num_levels": num_levels,
        "num_buffers": num_buffers,
        "size_bytes": size_bytes,
        "levels": np.zeros(len(starts), dtype=np.int64),
        "part_starts": np.zeros(shape, dtype=np.int64),
        "part_sizes": np.zeros(shape, dtype=np.int64),
    }


@st.composite
def chunk_tables(draw: st.DrawFn) -> Arguments:
    rng, width, pages = draw(rngs), draw(st.sampled_from([2, 4])), draw(st.integers(1, 3))
    held = rng.integers(1, 6, pages)
    words = rng.integers(0, 50, held.sum()) << 4 | rng.integers(0, 16, held.sum())
    firsts = np.cumsum(held) - held
    values = np.add.reduceat(1 << (words & 15), firsts) - (1 << (words[np.cumsum(held) - 1] & 15))
    values += rng.choice([0, 1, 1000, 1 << 15, -1, 1 << 16], pages, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05])
    room = np.add.reduceat(((words >> 4) + 1) * 8, firsts)
    return {
        "words": words.astype(f"<u{width}").view(np.uint8),
        "width": width,
        "numbers": held,
        "num_values": values,
        "room": room + rng.choice([0, 5, -1], pages, p=[0.5, 0.4, 0.1]),
        "starts": np.zeros(len(words), dtype=np.int64),
        "sizes": np.zeros(len(words), dtype=np.int64),
        "counts": np.zeros(len(words), dtype=np.int64),
    }


@st.composite
def laid_out(draw: st.DrawFn) -> Arguments:
    rng, num_levels, buffers = draw(rngs), draw(st.integers(0, 2)), draw(st.integers(1, 2))
    chunks, size_bytes = draw(st.integers(1, 4)), draw(st.sampled_from([2, 4]))
    counts = 1 << rng.integers(1, 16, chunks)
    counts[-1] = rng.integers(0, 1 << 15)
    sizes = rng.integers(0, 100, (num_levels + buffers, chunks))
    levels = rng.integers(0, 1 << 16, chunks)
    which = draw(st.integers(0, chunks - 1))
    wrong = draw(st.sampled_from(["", "", "count", "levels", "size"]))
    if wrong == "count":
        counts[which] = draw(st.sampled_from([-1, 1, 3, 1 << 16]))
    elif wrong == "levels":
        levels[which] = 1 << 16
    elif wrong == "size":
        sizes[draw(st.integers(0, len(sizes) - 1)), which] = draw(st.sampled_from([40_000, 70_000, 1 << 32]))
    return {
        "sizes": sizes,
        "levels": levels,
        "counts": counts,
        "num_levels": num_levels,
        "size_bytes": size_bytes,
        "starts": np.zeros(chunks + 1, dtype=np.int64),
        "places": np.zeros_like(sizes),
        "words": np.zeros(chunks * size_bytes, dtype=np.uint8),
    }


@st.composite
def written_heads(draw: st.DrawFn) -> Arguments:
    rng, num_levels, buffers = draw(rngs), draw(st.integers(0, 2)), draw(st.integers(1, 2))
    size_bytes = draw(st.sampled_from([2, 4]))
    sizes = rng.integers(0, 100, (num_levels + buffers, draw(st.integers(1, 4))))
    header = (2 + 2 * num_levels + size_bytes * buffers + 7) & -8
    room = (sizes + 7) & -8
    starts = np.cumsum([0, *(header + room.sum(axis=0))])
    return {
        "sizes": sizes,
        "places": np.ascontiguousarray(starts[:-1] + header + np.cumsum(room, axis=0) - room),
        "levels": rng.integers(0, 1 << 16, sizes.shape[1]),
        "starts": starts,
        "num_levels": num_levels,
        "size_bytes": size_bytes,
        "data": random_bytes(rng, int(starts[-1])),
    }


@st.composite
def packed_levels(draw: st.DrawFn) -> Arguments:
    rng, width = draw(rngs), draw(st.integers(1, 16))
    counts = rng.integers(0, 2500, draw(st.integers(0, 4)))
    full, tails = np.divmod(counts, 1024)
    plain = (rng.integers(0, 2, len(counts)) == 1) & (tails * 2 < 128 * width)
    sizes = full * 128 * width + np.where(plain, tails * 2, np.where(tails > 0, 128 * width, 0))
    gaps = (sizes + 7) & -8
    if len(sizes) and draw(st.booleans()):
        sizes[-1] = draw(st.integers(0, int(sizes[-1])))
    data = random_bytes(rng, int(gaps.sum()))
    return {
        "words": data.view(np.uint64),
        "data": data,
        "starts": np.cumsum(gaps) - gaps,
        "sizes": sizes,
        "counts": counts,
        "width": width,
        "levels": np.zeros(int(counts.sum()), dtype=np.uint16),
    }


@st.composite
def entries(draw: st.DrawFn, *names: str) -> Arguments:
    """Levels of some entries, and the arguments of these names."""
    rng, count = draw(rngs), draw(st.integers(0, 40))
    rep = rng.integers(0, 4, count).astype(np.uint16)
    definition = rng.integers(0, 6, count).astype(np.uint16)
    below = draw(st.integers(1, 6))
    made = {
        "rep": rep,
        "definition": definition,
        "lowest": draw(st.integers(1, 3)),
        "below": below,
        "hidden": draw(st.integers(1, below)),
        "codes": random_bytes(rng, 6),
        "offsets": np.zeros(count + 1, dtype=np.int32),
        "found": np.zeros(count + 1, dtype=np.uint8),
    }
    return {name: made[name] for name in names}


def _lists(arguments: Arguments) -> int:
    lists = arguments["rep"] >= arguments["lowest"]
    if "definition" in arguments:
        lists &= arguments["definition"] < arguments["below"]
    return int(lists.sum())


def _offsets_of_lists(arguments: Arguments, _: Any) -> Any:
    count = _lists(arguments)
    codes = arguments.get("found", np.zeros(0, dtype=np.uint8))
    return arguments["offsets"][: count + 1].tolist(), codes[:count].tolist()


@st.composite
def cut_values(draw: st.DrawFn) -> Arguments:
    found = draw(entries("definition", "below"))
    total = int((found["definition"] < found["below"]).sum())
    values = sorted(draw(st.sets(st.integers(1, max(total, 1)), max_size=5))) if total else []
    return found | {"values": numbers(*values), "cuts": np.zeros(len(values), dtype=np.int64)}


@st.composite
def cut_rows(draw: st.DrawFn) -> Arguments:
    rep = np.append(np.uint16(3), draw(entries("rep"))["rep"])
    ends = sorted(draw(st.sets(st.integers(1, len(rep)), max_size=5)))
    begun, lasts = np.zeros(len(ends), dtype=np.int64), np.zeros(len(ends), dtype=np.int64)
    return {"rep": rep, "highest": 3, "ends": numbers(*ends), "begun": begun, "lasts": lasts}


@st.composite
def states(draw: st.DrawFn) -> tuple[np.ndarray, np.random.Generator]:
    rng = draw(rngs)
    found = rng.integers(0, 4, draw(st.integers(0, 30))) * rng.integers(0, 2)
    hidden = (found > 0) & (rng.integers(0, 2, len(found)) == 1)
    return np.where(hidden, found | 0x8000, found).astype(np.uint16), rng


def _places(states: np.ndarray) -> int:
    return int((states < 0x8000).sum())


@st.composite
def layers(draw: st.DrawFn) -> Arguments:
    found, rng = draw(states())
    valid = np.append(rng.integers(0, 2, _places(found)), 1).astype(np.uint8)
    return {"states": found, "valid": valid, "level": 7}


@st.composite
def lists(draw: st.DrawFn, *, expanded: bool) -> Arguments:
    found, rng = draw(states())
    lengths = rng.integers(0, 4, _places(found))
    offsets = np.concatenate([[0], np.cumsum(lengths)]) + 5
    offsets = np.append(offsets, offsets[-1]).astype(draw(st.sampled_from([np.int32, np.int64])))
    if not expanded:
        return {"states": found, "offsets": offsets}
    below = np.ones(len(found), dtype=np.int64)
    below[found < 0x8000] = np.maximum(np.where(found[found < 0x8000] == 0, lengths, 0), 1)
    return {
        "states": found,
        "rep": rng.integers(2, 4, len(found)).astype(np.uint16),
        "offsets": offsets,
        "empty": 9,
        "new_states": np.zeros(int(below.sum()), dtype=np.uint16),
        "new_rep": np.ones(int(below.sum()), dtype=np.uint16),
    }


@st.composite
def finished(draw: st.DrawFn) -> Arguments:
    found, rng = draw(states())
    return {
        "states": found,
        "levels": rng.integers(0, 9, 4).astype(np.uint16),
        "definition": np.zeros(len(found), dtype=np.uint16),
        "null": np.zeros(_places(found) + 1, dtype=np.uint8),
    }


@st.composite
def stored_ends(draw: st.DrawFn) -> Arguments:
    rng, skipped, count = draw(rngs), draw(st.integers(0, 1)), draw(st.integers(0, 20))
    ends = np.cumsum(rng.integers(0, 10, count + skipped)).astype(np.uint64)
    total = int(ends[-1]) if len(ends) else 0
    step = draw(st.sampled_from([0, total + 1]))
    if step:
        ends[rng.integers(0, 3, len(ends)) == 0] += np.uint64(step)
    if len(ends) and draw(st.booleans()):
        ends[draw(st.integers(0, len(ends) - 1))] = draw(st.integers(0, 2**64 - 1))
    return {
        "ends": ends,
        "step": step,
        "limit": total + draw(st.integers(-1, 1)) if total else 0,
        "skipped": skipped,
        "offsets": np.zeros(count + 1, dtype=np.int64),
        "validity": np.zeros((count + 7) // 8, dtype=np.uint8),
    }


@st.composite
def extents(draw: st.DrawFn, *, nullable: bool = True) -> Arguments:
    """Offsets and validity of some rows."""
    rng, count, bit = draw(rngs), draw(st.integers(0, 40)), draw(st.integers(0, 20))
    offsets = np.append(0, np.cumsum(rng.integers(0, 6, count))) + draw(st.integers(0, 9))
    validity = random_bytes(rng, (bit + count + 7) // 8)
    return {
        "offsets": offsets.astype(draw(st.sampled_from([np.int32, np.int64]))),
        "validity": validity if nullable or draw(st.booleans()) else validity[:0],
        "bit": bit,
    }


@st.composite
def ends_to_be(draw: st.DrawFn) -> Arguments:
    found = draw(extents(nullable=False))
    ends = np.zeros(len(found["offsets"]) - 1, dtype=np.uint64)
    return found | {"base": draw(st.integers(0, 99)), "adjustment": draw(st.integers(1, 999)), "ends": ends}


@st.composite
def scattered_bytes(draw: st.DrawFn) -> Arguments:
    found, rng = draw(extents()), draw(rngs)
    offsets = found["offsets"]
    if draw(st.booleans()):
        offsets[draw(st.integers(0, len(offsets) - 1))] = draw(st.integers(-5, 300))
    data = random_bytes(rng, max(0, int(offsets[-1]) - draw(st.integers(0, 3))))
    return {"out": np.zeros(draw(st.integers(0, 250)), dtype=np.uint8), "data": data} | found


def _written(arguments: Arguments, answer: int) -> Any:
    return arguments["out"][:answer].tobytes(), arguments.get("out_offsets", np.zeros(0)).tolist()


@st.composite
def strings_to_look_at(draw: st.DrawFn) -> Arguments:
    """Mostly text, long enough for the words and blocks of words that are looked at together."""
    letters = st.sampled_from([b"a" * 700, b"plain", "é".encode(), "€".encode(), "𝄞".encode()])
    odd = st.sampled_from(
        [bytes([value]) for value in (0x80, 0xA0, 0xC0, 0xC3, 0xE0, 0xED, 0xF0, 0xF4, 0xF5)]
    )
    data = np.frombuffer(b"".join(draw(st.lists(letters | letters | odd, max_size=12))), dtype=np.uint8)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    offsets = np.array([0, *cuts, len(data)]) + draw(st.integers(0, 9))
    return {"data": data, "offsets": offsets.astype(draw(st.sampled_from([np.int32, np.int64])))}


@st.composite
def entries_to_look_up(draw: st.DrawFn, *, any_position: bool) -> Arguments:
    rng, word = draw(rngs), draw(st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]))
    ends = np.append(0, np.cumsum(rng.integers(0, draw(st.integers(1, 30)), draw(st.integers(1, 9)))))
    positions = rng.integers(0, len(ends) - 1, draw(st.integers(0, 20))).astype(word)
    if any_position and len(positions) and draw(st.booleans()):
        positions[draw(st.integers(0, len(positions) - 1))] = draw(st.integers(0, 255))
    return {"positions": positions, "ends": ends}


@st.composite
def values_to_measure(draw: st.DrawFn) -> Arguments:
    found = draw(entries_to_look_up(any_position=True))
    offsets = np.zeros(len(found["positions"]) + 1, dtype=draw(st.sampled_from([np.int32, np.int64])))
    return found | {"out_offsets": offsets}


@st.composite
def values_to_copy(draw: st.DrawFn) -> Arguments:
    found = draw(entries_to_look_up(any_position=False))
    total = int(np.diff(found["ends"])[found["positions"]].sum())
    data = random_bytes(draw(rngs), int(found["ends"][-1]) + lookup.SPARE)
    return found | {"data": data, "out": np.zeros(total + lookup.SPARE, dtype=np.uint8)}


def _looked_up(arguments: Arguments, _: None) -> Any:
    return arguments["out"][: -lookup.SPARE].tobytes()


@st.composite
def encoded_values(draw: st.DrawFn) -> Arguments:
    found = draw(values_to_encode())
    heads = (found["counts"] + 1) * found["words"].itemsize
    variable.encode(**found)
    data, starts, counts = found["out"], found["starts"], found["counts"]
    sizes = np.diff(starts, append=len(data))
    if len(data) and draw(st.booleans()):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return {
        "data": data,
        "starts": starts,
        "sizes": sizes,
        "counts": counts,
        "width": found["words"].itemsize,
        "out": np.zeros(int((sizes - heads).sum()), dtype=np.uint8),
        "out_offsets": np.zeros(int(counts.sum()) + 1, dtype=draw(st.sampled_from([np.int32, np.int64]))),
    }


@st.composite
def values_to_encode(draw: st.DrawFn) -> Arguments:
    rng, width = draw(rngs), draw(st.sampled_from([4, 8]))
    counts = rng.integers(0, 7, draw(st.integers(0, 4)))
    ends = np.append(0, np.cumsum(rng.integers(0, 9, int(counts.sum()))))
    firsts = np.cumsum(counts) - counts
    sizes = ((counts + 1) * width + ends[firsts + counts] - ends[firsts] + 7) & -8
    out = np.zeros(int(sizes.sum()), dtype=np.uint8)
    return {
        "data": random_bytes(rng, int(ends[-1])),
        "ends": ends,
        "counts": counts,
        "starts": np.cumsum(sizes) - sizes,
        "words": out.view(f"<u{width}"),
        "out": out,
    }


@st.composite
def scattered_values(draw: st.DrawFn) -> Arguments:
    found = draw(moved_parts())
    lengths = found["sizes"]
    return {
        "data": found["data"],
        "starts": found["starts"],
        "lengths": lengths,
        "out": np.zeros(int(lengths.sum()), dtype=np.uint8),
        "out_offsets": np.zeros(len(lengths) + 1, dtype=draw(st.sampled_from([np.int32, np.int64]))),
    }


@st.composite
def planned_values(draw: st.DrawFn) -> Arguments:
    rng, count = draw(rngs), draw(st.integers(0, 300))
    return {
        "ends": np.append(0, np.cumsum(rng.integers(0, draw(st.sampled_from([2, 60])), count))),
        "width": draw(st.sampled_from([4, 8])),
        "chunk_bytes": draw(st.sampled_from([64, 512])),
        "max_count": draw(st.sampled_from([16, 1 << 15])),
        "counts": np.zeros((count + 1) // 2, dtype=np.int64),
    }


@st.composite
def repeated_strings(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    kinds = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=8))
    found = [kinds[number] for number in rng.integers(0, len(kinds), draw(st.integers(0, 40)))]
    offsets = np.append(0, np.cumsum([len(one) for one in found])) + 3
    limit = draw(st.integers(1, 9))
    return {
        "data": np.frombuffer(b"".join(found), dtype=np.uint8),
        "offsets": offsets.astype(draw(st.sampled_from([np.int32, np.int64]))),
        "limit": limit,
        "max_bytes": draw(st.sampled_from([40, 10_000])),
        "positions": np.zeros(len(found), dtype=np.uint32),
        "items": np.zeros(9 * 20 + numbering.SPARE_BYTES, dtype=np.uint8),
        "item_offsets": np.zeros(limit + 1, dtype=np.int64),
        "hashes": np.zeros(limit, dtype=np.uint64),
    }


def _numbered_strings(arguments: Arguments, count: int) -> Any:
    ends = arguments["item_offsets"][: count + 1]
    return arguments["positions"].tolist(), ends.tolist(), arguments["items"][: ends[-1]].tobytes()


@st.composite
def repeated_words(draw: st.DrawFn) -> Arguments:
    rng, width, count = draw(rngs), draw(st.integers(1, 3)), draw(st.integers(0, 40))
    kinds = rng.integers(0, 2**64, (draw(st.integers(1, 8)), width), dtype=np.uint64)
    limit = draw(st.integers(0, 9))
    return {
        "words": kinds[rng.integers(0, len(kinds), count)].reshape(-1),
        "width": width,
        "limit": limit,
        "positions": np.zeros(count, dtype=np.uint32),
        "firsts": np.zeros(limit, dtype=np.int64),
        "hashes": np.zeros(limit, dtype=np.uint64),
    }


@st.composite
def zipped_rows(draw: st.DrawFn, *, counted: bool) -> Arguments:
    """Rows of entries, one byte of which may be damaged."""
    rng, single = draw(rngs), not counted and draw(st.booleans())
    control, rep_bits, def_bits = draw(st.sampled_from([(0, 0, 0), (1, 1, 2), (2, 9, 3)]))
    length_bytes = draw(st.sampled_from([0, 4, 8]))
    visible = 2 if def_bits else 1
    value_bytes = 0 if length_bytes else draw(st.integers(1, 5))
    rows, entries = [], 0
    for _ in range(draw(st.sampled_from([0, 1, 3, 30]))):
        row = b""
        for _ in range(1 if single else int(rng.integers(1, 6))):
            level = int(rng.integers(0, 1 << def_bits))
            word = level | int(rng.integers(0, 1 << rep_bits)) << def_bits
            row += word.to_bytes(control, "little")
            size = int(rng.integers(1, 9)) if length_bytes else value_bytes if level < visible else 0
            if length_bytes and level == 0:
                row += size.to_bytes(length_bytes, "little")
            row += bytes(size if not length_bytes or level == 0 else 0)
            entries += 1
        rows.append(row)
    data = np.frombuffer(b"".join(rows), dtype=np.uint8).copy()
    stops = np.cumsum([len(row) for row in rows], dtype=np.int64)
    starts = stops - np.array([len(row) for row in rows], dtype=np.int64)
    if len(data) and draw(st.booleans()):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    if counted:
        return {
            "data": data,
            "starts": starts,
            "stops": stops,
            "control_bytes": control,
            "def_bits": def_bits,
            "length_bytes": length_bytes,
            "value_bytes": value_bytes,
            "visible_below": visible,
            "counts": np.zeros(2, dtype=np.int64),
        }
    # Damage may make more entries of a row, but never more than it has bytes.
    room = len(data) + 1 if draw(st.booleans()) else 0
    return {
        "data": data,
        "starts": starts,
        "stops": stops,
        "form": numbers(control, rep_bits, def_bits, length_bytes, value_bytes, visible),
        "single": single,
        "rep": np.zeros(room, dtype=np.uint16),
        "definition": np.zeros(room, dtype=np.uint16),
        "values": np.zeros(room, dtype=np.int64),
        "offsets": np.zeros(room and room + 1, dtype=np.int64),
        "totals": np.zeros(3, dtype=np.int64),
    }


@st.composite
def pieces(draw: st.DrawFn) -> Arguments:
    rng, count = draw(rngs), draw(st.integers(0, 12))
    found, offsets, widths = [], [], []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            widths.append(draw(st.integers(0, 5)))
            offsets.append(None)
            size = widths[-1] * count
        else:
            widths.append(0)
            offsets.append(np.append(0, np.cumsum(rng.integers(0, draw(st.sampled_from([9, 90])), count))))
            size = int(offsets[-1][-1])
        found.append(random_bytes(rng, size))
    return {
        "pieces": found,
        "offsets": offsets,
        "widths": widths,
        "count": count,
        "target": np.zeros(sum(map(len, found)) + full_zip_encode.SLACK, dtype=np.uint8),
        "ends": np.zeros(count + 1, dtype=np.int64),
    }


def _joined(arguments: Arguments, _: Any) -> Any:
    return arguments["target"][: -full_zip_encode.SLACK].tobytes(), arguments["ends"].tolist()


@st.composite
def ranges(draw: st.DrawFn) -> Arguments:
    found = draw(moved_parts())
    starts, stops = found["starts"], found["starts"] + found["sizes"]
    if len(starts) and draw(st.booleans()):
        stops[draw(st.integers(0, len(stops) - 1))] = draw(st.integers(-5, 70))
    return {"data": found["data"], "starts": starts, "stops": stops, "out": np.zeros(120, dtype=np.uint8)}


@st.composite
def symbols(draw: st.DrawFn, tables: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = draw(rngs)
    known = rng.choice([1, 5, 130, 255], tables).astype(np.int64)
    words, lengths = np.zeros((tables, 256), dtype=np.uint64), np.zeros((tables, 256), dtype=np.int64)
    for table, count in enumerate(known.tolist()):
        lengths[table, :count] = rng.integers(1, 9, count)
        shifts = (64 - 8 * lengths[table, :count]).astype(np.uint64)
        words[table, :count] = rng.integers(0, 2**64, count, dtype=np.uint64) >> shifts
    return words.reshape(-1), lengths.reshape(-1), known


def _codes(rng: np.random.Generator, known: int, count: int) -> list[bytes]:
    """Compressed strings, with an escape here and there."""
    found = []
    for size in rng.integers(0, 30, count).tolist():
        codes = rng.integers(0, known, size).tolist()
        pieces = [b"\xff" + bytes([code]) if rng.integers(0, 8) == 0 else bytes([code]) for code in codes]
        found.append(b"".join(pieces))
    return found


def _room(codes: int, count: int) -> Arguments:
    return {
        "literals": np.zeros(1, dtype=np.uint8),
        "out": np.zeros(8 * codes + fsst_decode.SPARE_BYTES, dtype=np.uint8),
        "out_offsets": np.zeros(count + 1, dtype=np.int32),
    }


def _damage(draw: st.DrawFn, data: np.ndarray) -> None:
    if len(data) and draw(st.integers(0, 2)) == 0:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.sampled_from([255, 254, 3]))


@st.composite
def compressed(draw: st.DrawFn, *, apart: bool) -> Arguments:
    words, lengths, known = draw(symbols(1))
    found = _codes(draw(rngs), int(known[0]), draw(st.integers(0, 9)))
    data = np.frombuffer(b"".join(found), dtype=np.uint8).copy()
    _damage(draw, data)
    positions = np.append(0, np.cumsum([len(one) for one in found], dtype=np.int64))
    where = {"starts": positions[:-1], "sizes": np.diff(positions)} if apart else {"positions": positions}
    table = {"words": words, "lengths": lengths, "known": int(known[0])}
    return {"data": data} | where | table | _room(len(data), len(found))


@st.composite
def compressed_chunks(draw: st.DrawFn) -> Arguments:
    tables = draw(st.integers(1, 2))
    words, lengths, known = draw(symbols(tables))
    rng, width = draw(rngs), draw(st.sampled_from([4, 8]))
    counts = rng.integers(0, 6, draw(st.integers(0, 4)))
    chosen = np.sort(rng.integers(0, tables, len(counts)))
    starts, data = [], b""
    for count, table in zip(counts.tolist(), chosen.tolist(), strict=True):
        found = _codes(rng, int(known[table]), count)
        ends = np.append(0, np.cumsum([len(one) for one in found], dtype=np.int64)) + (count + 1) * width
        starts.append(len(data))
        data += ends.astype(f"<u{width}").tobytes() + b"".join(found)
    plain = np.frombuffer(data, dtype=np.uint8).copy()
    _damage(draw, plain)
    return {
        "data": plain,
        "starts": numbers(*starts),
        "sizes": np.diff(numbers(*starts, len(data))),
        "counts": counts,
        "width": width,
        "tables": chosen,
        "words": words,
        "lengths": lengths,
        "known": known,
    } | _room(len(data), int(counts.sum()))


def _decoded(arguments: Arguments, size: int) -> Any:
    return (*_written(arguments, size), int(arguments["literals"][0]))


def _first_codes(arguments: Arguments, answer: int) -> Any:
    return arguments["found"][:answer].tolist()


_BOUNDS = ("rep", "definition", "lowest", "below", "hidden")


@st.composite
def ordered_words(draw: st.DrawFn) -> Arguments:
    letters = draw(st.sampled_from(["ab", "abcdefgh", "äß€x", "".join(map(chr, range(33, 300)))]))
    words = sorted({word.encode() for word in draw(st.lists(st.text(letters, max_size=8), max_size=60))})
    values = draw(
        st.just(range(len(words)))
        | st.lists(st.integers(0, 2**31 - 1), min_size=len(words), max_size=len(words))
    )
    return {
        "data": np.frombuffer(b"".join(words), np.uint8),
        "offsets": np.cumsum([0, *map(len, words)], dtype=np.int64),
        "values": np.array(values, np.int64),
        "common": b"te/oas",
    }


@st.composite
def transducers(draw: st.DrawFn) -> Arguments:
    """Whole ones, and some with bytes that nobody wrote."""
    made = fst.build(**draw(ordered_words()))
    count, root = struct.unpack_from("<QQ", made, len(made) - 20)
    data = np.frombuffer(made[:-20], np.uint8).copy()
    for _ in range(draw(st.integers(0, 3))):
        if len(data) > 16:
            data[draw(st.integers(16, len(data) - 1))] = draw(st.integers(0, 255))
    return {
        "data": data,
        "version": draw(st.sampled_from([1, 3])),
        "root": draw(st.just(root) | st.integers(0, len(data) + 5)),
        "count": draw(st.just(count) | st.integers(0, 100)),
        # Bytes that are named by their place: more than the transducer was made with.
        "common": b"te/oas" + bytes(range(57)),
    }


@st.composite
def turned_vectors(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    rows, dimension = draw(st.integers(0, 5)), draw(st.integers(1, 70))
    return {
        "vectors": rng.normal(size=(rows, dimension)).astype(np.float32),
        "flips": rng.integers(0, 2, (4, dimension)).astype(np.uint8),
    }


@st.composite
def amounts_to_level(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    shape = draw(st.integers(0, 5)), draw(st.integers(1, 70))
    greatest = draw(st.sampled_from([1, 2, 300, 1 << 14, 1 << 22]))
    return {
        "amounts": rng.integers(0, greatest, shape, endpoint=True).astype(np.int32),
        "shares": np.sort(rng.integers(200, 1100, draw(st.integers(1, 6)))),
        "nearby": rng.integers(-100, 100, draw(st.integers(0, 4))),
        "most": (1 << draw(st.integers(1, 8))) - 1,
        "levels": np.zeros(shape, np.uint8),
    }


@st.composite
def distances_to_choose(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    rows = draw(st.integers(1, 60))
    distances = rng.integers(0, draw(st.sampled_from([3, 1000])), rows).astype(np.float32)
    return {"distances": distances, "count": draw(st.integers(1, rows))}


@st.composite
def weighed_documents(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    every, held = draw(st.integers(1, 80)), draw(st.integers(0, 80))
    documents = np.flatnonzero(rng.random(every) < held / 80)
    sizes = rng.integers(0, 40, every).astype(np.uint32)
    return {
        "documents": documents,
        "counts": rng.integers(1, 9, len(documents)).astype(np.uint32),
        "sizes": sizes,
        "average": np.float32(sizes.sum()) / np.float32(every),
        "weight": np.float32(rng.random() * 9),
        "k1": np.float32(1.2),
        "b": np.float32(0.75),
        "scores": np.zeros(len(documents), np.float32),
    }


@st.composite
def lists_of_documents(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    every = draw(st.integers(0, 80))
    documents = np.flatnonzero(rng.random(every) < draw(st.sampled_from([0, 0.1, 0.9])))
    others = np.flatnonzero(rng.random(every) < draw(st.sampled_from([0, 0.1, 0.9])))
    room = len(documents) + len(others)
    return {
        "documents": documents,
        "scores": rng.random(len(documents)).astype(np.float32),
        "others": others,
        "added": rng.random(len(others)).astype(np.float32),
        "all_documents": np.zeros(room, np.int64),
        "all_scores": np.zeros(room, np.float32),
    }


@st.composite
def packed_signs(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    rows, width = draw(st.integers(0, 70)), draw(st.integers(1, 5))
    return {
        "packed": random_bytes(rng, rows * width).reshape(rows, width),
        "spread": rng.integers(0, 1 << 63, 256).astype(np.uint64),
        "numbers": np.zeros((rows, width), np.uint64),
    }


@st.composite
def levels_in_words(draw: st.DrawFn) -> Arguments:
    rng = draw(rngs)
    rows, groups, group = draw(st.integers(0, 5)), draw(st.integers(1, 3)), draw(st.integers(2, 7))
    runs = [
        (rng.integers(0, group), rng.integers(0, 8), rng.integers(0, 8), 0x0F * 0x0101010101010101, bits)
        for bits in rng.integers(0, 5, draw(st.integers(1, 6)))
    ]
    return {
        "packed": rng.integers(0, 1 << 63, (rows, groups * group)).astype(np.uint64),
        "runs": np.array(runs, np.uint64),
        "group": group,
        "numbers": np.zeros((rows, int(rng.integers(1, 8 * groups + 1))), np.uint64),
    }


@st.composite
def estimated_rows(draw: st.DrawFn) -> Arguments:
    # Sums of whole numbers are the same in any order.
    rng = draw(rngs)
    rows, dimension = draw(st.integers(0, 6)), draw(st.integers(1, 70))
    kind = draw(st.sampled_from([np.uint8, np.uint16]))
    return {
        "numbers": rng.integers(0, np.iinfo(kind).max // 2, (rows, dimension)).astype(kind),
        "weights": rng.integers(-3, 3, dimension).astype(np.float32),
        "middle": float(rng.integers(0, 9)),
        "add": rng.integers(0, 9, rows).astype(np.float32),
        "scale": rng.integers(-2, 3, rows).astype(np.float32),
        "offset": float(rng.integers(0, 9)),
        "found": np.zeros(rows, np.float32),
    }


CASES = [
    Case(steps.rises_by, rising()),
    Case(xxhash64.hash_parts, byte_strings()),
    Case(split_block.insert, filtered_runs()),
    Case(address_map.follow, followed_rows(), _followed, wrong=lambda answer: answer >= 0),
    Case(address_map.find_outside, limited_rows(), lambda *_: None),
    Case(code_distances.fill_tables, codebooks()),
    Case(code_distances.sum_words, coded_vectors()),
    Case(code_distances.squared_distances, whole_vectors()),
    Case(code_distances.squared_differences, vectors_of_bytes()),
    Case(code_distances.greatest_of_least, distances_to_choose()),
    Case(code_distances.compare_pairs, pairs_of_vectors()),
    Case(text_scores.weigh, weighed_documents()),
    Case(text_scores.merge, lists_of_documents()),
    Case(graph.connect, near_rows()),
    Case(rabit.rotate, turned_vectors()),
    Case(rabit.choose_levels, amounts_to_level()),
    Case(rabit.spread_signs, packed_signs()),
    Case(rabit.add_levels, levels_in_words()),
    Case(rabit.estimate, estimated_rows()),
    Case(lz4.is_whole, lz4_blocks()),
    Case(
        rle.repeat,
        run_lengths(),
        filled=lambda arguments, _: arguments["target"][: -rle.SLACK].tobytes(),
        wrong=lambda whole: not whole,
    ),
    Case(byte_stream_split.join, streams(joined=True)),
    Case(byte_stream_split.split, streams(joined=False)),
    Case(bitpacking.unpack, packed_blocks()),
    Case(bitpacking.unpack_inline, inline_blocks()),
    Case(bitpacking.pack, plain_blocks()),
    Case(bitpacking.widths, measured_blocks()),
    Case(chunks.copy_parts, moved_parts()),
    Case(chunks.split, divided_chunks()),
    Case(chunks.find_chunks, chunk_tables()),
    Case(chunks.lay_out, laid_out(), wrong=lambda answer: answer < 0),
    Case(chunks.write_heads, written_heads()),
    Case(level_packing.unpack, packed_levels(), wrong=lambda whole: not whole),
    Case(levels.find_starts, entries("rep", "lowest", "offsets"), filled=_offsets_of_lists),
    Case(levels.count_starts, entries("rep", "lowest", "offsets"), filled=_offsets_of_lists),
    Case(levels.count_items, entries(*_BOUNDS, "offsets"), filled=_offsets_of_lists),
    Case(levels.count_and_pick, entries(*_BOUNDS, "codes", "offsets", "found"), filled=_offsets_of_lists),
    Case(levels.pick_visible_codes, entries("definition", "below", "codes", "found"), filled=_first_codes),
    Case(
        levels.pick_codes,
        entries("rep", "definition", "lowest", "below", "codes", "found"),
        filled=_first_codes,
    ),
    Case(levels.cut, cut_values()),
    Case(levels.find_rows, cut_rows()),
    Case(ravel.mark_nulls, layers()),
    Case(ravel.count_entries, lists(expanded=False), wrong=lambda _: False),
    Case(ravel.expand, lists(expanded=True)),
    Case(
        ravel.finish,
        finished(),
        filled=lambda arguments, places: (
            arguments["definition"].tolist(),
            arguments["null"][:places].tolist(),
        ),
    ),
    Case(end_offsets_decode.decode, stored_ends()),
    Case(end_offsets_encode.measure, extents()),
    Case(end_offsets_encode.encode, ends_to_be()),
    Case(end_offsets_encode.compact, scattered_bytes(), filled=_written),
    Case(utf8.check, strings_to_look_at()),
    Case(lookup.measure, values_to_measure()),
    Case(lookup.copy, values_to_copy(), filled=_looked_up),
    Case(variable.decode, encoded_values(), filled=_written),
    Case(variable.gather, scattered_values()),
    Case(
        variable.plan,
        planned_values(),
        filled=lambda arguments, count: arguments["counts"][:count].tolist(),
    ),
    Case(variable.encode, values_to_encode()),
    Case(numbering.number_strings, repeated_strings(), filled=_numbered_strings),
    Case(
        numbering.number_words,
        repeated_words(),
        filled=lambda arguments, count: (
            arguments["positions"].tolist(),
            arguments["firsts"][:count].tolist(),
        ),
    ),
    Case(full_zip_decode.walk, zipped_rows(counted=False)),
    Case(full_zip_encode.join, pieces(), filled=_joined),
    Case(page_copy.gather_ranges, ranges(), filled=_written),
    Case(page_copy.count_entries, zipped_rows(counted=True)),
    Case(fsst_decode.decode_values, compressed(apart=False), filled=_decoded),
    Case(fsst_decode.decode_slices, compressed(apart=True), filled=_decoded),
    Case(fsst_decode.decode_chunks, compressed_chunks(), filled=_decoded),
    Case(fst.build, ordered_words(), wrong=lambda _: False),
    Case(
        fst_words.list_words,
        transducers(),
        filled=lambda _, found: found[0],
        wrong=lambda found: found[0] < 0,
    ),
]
