"""Random arguments for each front, and what of its work is to be the same compiled and not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lance_ops.encoding.kernels.fronts import bitpacking, byte_stream_split, lz4, rle, steps

Arguments = dict[str, Any]


def _all(arguments: Arguments, answer: Any) -> Any:
    return [values.tobytes() for values in arguments.values() if isinstance(values, np.ndarray)]


@dataclass(frozen=True)
class Case:
    """A front, its arguments, and what it fills in where its answer is not that something is wrong."""

    front: Callable[..., Any]
    arguments: st.SearchStrategy[Arguments]
    filled: Callable[[Arguments, Any], Any] = _all
    wrong: Callable[[Any], bool] = lambda answer: answer is not None and answer < 0

    def run(self, arguments: Arguments) -> tuple[Any, Any]:
        own = {
            key: value.copy() if isinstance(value, np.ndarray) else value for key, value in arguments.items()
        }
        answer = self.front(**own)
        return answer, None if self.wrong(answer) else self.filled(own, answer)

    def __str__(self) -> str:
        return f"{self.front.__module__.rpartition('.')[2]}.{self.front.__name__}"


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def random_bytes(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(0, 256, size).astype(np.uint8)


rngs = st.integers(0, 2**32 - 1).map(np.random.default_rng)
"""Most arguments are drawn by a seed: values matter less than how many there are of each."""


@st.composite
def rising(draw: st.DrawFn) -> Arguments:
    step = draw(st.integers(-5, 5))
    found = (np.arange(draw(st.integers(0, 50))) * step).astype(draw(st.sampled_from([np.int32, np.int64])))
    if len(found) and draw(st.booleans()):
        found[draw(st.integers(0, len(found) - 1))] += draw(st.integers(-1, 1))
    return {"numbers": found, "step": step}


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
    values = np.zeros(16 * bits * len(widths), dtype=np.uint64)
    return {
        "data": data,
        "packed": packed,
        "offset": offset,
        "starts": starts,
        "sizes": sizes,
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


CASES = [
    Case(steps.rises_by, rising()),
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
]
