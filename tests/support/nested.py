"""Random nested arrays with all that Arrow allows: rubbish under nulls, gaps between lists, offsets."""

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

LEAVES = (
    pa.int8(),
    pa.int64(),
    pa.bool_(),
    pa.string(),
    pa.large_binary(),
    pa.binary(3),
    pa.float64(),
    pa.list_(pa.int16(), 2),
    pa.list_(pa.bool_(), 3),
)


def nested_types(depth: int = 3) -> st.SearchStrategy[pa.DataType]:
    """Types of lists, large lists, maps and structs, and fixed-size lists of structs without lists."""
    leaves = st.sampled_from(LEAVES)
    return st.recursive(leaves, _around, max_leaves=depth + 1) | _fixed_size_structs()


def _around(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    members = st.lists(inner, min_size=1, max_size=2)
    return (
        inner.map(pa.list_)
        | inner.map(pa.large_list)
        | st.tuples(st.sampled_from((pa.string(), pa.int8())), inner).map(lambda pair: pa.map_(*pair))
        | members.map(lambda types: pa.struct([(f"m{n}", item) for n, item in enumerate(types)]))
    )


def _fixed_size_structs() -> st.SearchStrategy[pa.DataType]:
    flat = st.lists(st.sampled_from(LEAVES[:6]), min_size=1, max_size=2)
    structs = flat.map(lambda types: pa.struct([(f"m{n}", item) for n, item in enumerate(types)]))
    lists = st.tuples(structs, st.integers(1, 3)).map(lambda pair: pa.list_(*pair))
    return lists | lists.map(lambda item: pa.struct([("f", item), ("g", pa.int8())]))


@st.composite
def nested_arrays(draw: st.DrawFn, *, max_length: int = 40) -> pa.Array:
    """An array of a random nested type, perhaps a slice of a larger one."""
    data_type = draw(nested_types())
    length = draw(st.integers(0, max_length))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nulls = draw(st.sampled_from((0.0, 0.1, 0.5, 1.0)))
    empties = draw(st.sampled_from((0.0, 0.3, 1.0)))
    array = wild_array(data_type, length, nulls=nulls, empties=empties, rng=rng)
    start = draw(st.integers(0, length))
    return array.slice(start, draw(st.integers(0, length - start)))


def wild_array(
    data_type: pa.DataType, length: int, *, nulls: float, empties: float, rng: np.random.Generator
) -> pa.Array:
    """An array whose children hold more than can be seen.

    Args:
        data_type: Of the array.
        length: Number of values.
        nulls: Share of nulls at every level.
        empties: Share of empty lists.
        rng: Where randomness comes from.
    """

    def below(item: pa.DataType, count: int, share: float = nulls) -> pa.Array:
        # Children may begin anywhere in their buffers.
        before, behind = rng.integers(0, 4, 2).tolist()
        total = before + count + behind
        return wild_array(item, total, nulls=share, empties=empties, rng=rng).slice(before, count)

    types = pa.types
    valid = rng.random(length) >= nulls
    validity = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    if types.is_struct(data_type):
        members = [below(field.type, length) for field in data_type]
        return pa.Array.from_buffers(data_type, length, [validity], children=members)
    if types.is_fixed_size_list(data_type):
        items = below(data_type.value_type, length * data_type.list_size)
        return pa.Array.from_buffers(data_type, length, [validity], children=[items])
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_map(data_type):
        lengths = np.where(rng.random(length) < empties, 0, rng.integers(1, 4, length))
        offsets = np.concatenate([[2], 2 + np.cumsum(lengths)])
        word = np.int64 if types.is_large_list(data_type) else np.int32
        total = int(offsets[-1]) + 1
        if types.is_map(data_type):
            entries = pa.struct([data_type.key_field, data_type.item_field])
            members = [below(data_type.key_type, total, 0.0), below(data_type.item_type, total)]
            items = pa.Array.from_buffers(entries, total, [None], children=members)
        else:
            items = below(data_type.value_type, total)
        buffers = [validity, pa.py_buffer(offsets.astype(word))]
        return pa.Array.from_buffers(data_type, length, buffers, children=[items])
    if types.is_string(data_type) or types.is_large_binary(data_type):
        lengths = rng.integers(0, 4, length)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        word = np.int64 if types.is_large_binary(data_type) else np.int32
        data = rng.integers(97, 123, int(offsets[-1]), dtype=np.uint8)
        buffers = [validity, pa.py_buffer(offsets.astype(word)), pa.py_buffer(data)]
        return pa.Array.from_buffers(data_type, length, buffers)
    if types.is_boolean(data_type):
        data = rng.integers(0, 256, (length + 7) // 8, dtype=np.uint8)
    else:
        data = rng.integers(0, 64, length * data_type.bit_width // 8, dtype=np.uint8)
    return pa.Array.from_buffers(data_type, length, [validity, pa.py_buffer(data)])
