"""Tables with random nested schemas, for hypothesis."""

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.arrays import DICTIONARY_TYPES, FLAT_TYPES, VARIABLE_TYPES, random_array

_FIXED = st.sampled_from(FLAT_TYPES)
_LEAVES = st.one_of(
    _FIXED,
    st.sampled_from([*VARIABLE_TYPES, *DICTIONARY_TYPES, pa.null()]),
    st.builds(pa.list_, _FIXED, st.integers(1, 4)),
)
_KEYS = st.sampled_from([pa.string(), pa.int32(), pa.binary(3), pa.timestamp("us")])


def _structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.builds(
        lambda members: pa.struct([(f"m{number}", member) for number, member in enumerate(members)]),
        st.lists(inner, min_size=1, max_size=3),
    )


def _extend(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(st.builds(pa.list_, inner), st.builds(pa.large_list, inner), _structs(inner))


def _extend_2_2(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(_extend(inner), st.builds(pa.map_, _KEYS, inner))


_TYPES = st.recursive(_LEAVES, _extend, max_leaves=6)
_TYPES_2_2 = st.recursive(_LEAVES, _extend_2_2, max_leaves=6)


@st.composite
def random_tables(draw: st.DrawFn, version: str = "2.0", max_rows: int = 300) -> pa.Table:
    """Up to four columns that a storage version can hold."""
    types = draw(st.lists(_TYPES_2_2 if version == "2.2" else _TYPES, min_size=1, max_size=4))
    length = draw(st.integers(0, max_rows))
    nulls = draw(st.sampled_from([0.0, 0.1, 0.9, 1.0]))
    depth = draw(st.sampled_from([None, None, 0, 1, 2]))
    seed = draw(st.integers(0, 2**16))
    columns = [
        random_array(
            kind,
            length,
            nulls=nulls,
            seed=seed + number,
            null_structs=version != "2.0",
            null_depth=depth,
        )
        for number, kind in enumerate(types)
    ]
    return pa.table({f"c{number}": column for number, column in enumerate(columns)})
