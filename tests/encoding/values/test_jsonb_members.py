"""Members of documents, found in their bytes: what text says of them, and nothing where it may say more."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.encoding.values.jsonb import encode_jsonb
from lance_ops.encoding.values.jsonb_members import members_of

OF_TYPE = {pa.int64(): int, pa.float64(): float, pa.string(): str, pa.bool_(): bool}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "a", "b", "ab"]), inner),
    max_leaves=8,
)


def stored(documents: list[Any]) -> pa.Array:
    texts = [None if document is None else json.dumps(document) for document in documents]
    return encode_jsonb(pa.array(texts, pa.string()))


def at(document: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.none() | values, max_size=6),
    st.sampled_from([("a",), ("b",), ("a", "b"), ("", "a")]),
    st.sampled_from(list(OF_TYPE)),
)
def test_values_of_the_type_are_found_and_no_others_are_guessed(
    documents: list[Any], names: tuple[str, ...], result: pa.DataType
) -> None:
    found = members_of(stored(["x", *documents]).slice(1), names, result)
    assert found is not None
    kept, others = found
    for document, value, other in zip(documents, kept.to_pylist(), others.tolist(), strict=True):
        expected = at(document, names)
        if other:
            assert value is None
            assert expected is not None
            assert type(expected) is not OF_TYPE[result] or not -(2**63) <= expected < 2**63
        elif result == pa.float64() and expected is not None:
            assert type(expected) in (int, float)
            assert value == float(expected)
        else:
            assert value == expected
            assert type(value) is type(expected)


@pytest.mark.parametrize("result", list(OF_TYPE), ids=str)
def test_damaged_documents_are_left_to_who_says_what_is_wrong(result: pa.DataType) -> None:
    (whole,) = stored([{"a": {"b": 7}, "c": "x"}]).to_pylist()
    rng = np.random.default_rng(0)
    cut = [whole[:size] for size in range(len(whole) - 1)]
    changed = [bytes(rng.integers(0, 256, len(whole)).astype(np.uint8)) for _ in range(50)]
    found = members_of(pa.array([*cut, *changed], pa.large_binary()), ("a", "b"), result)
    assert found is not None
    assert found[0].null_count == len(cut) + len(changed)
    assert found[1][: len(cut)].all()
