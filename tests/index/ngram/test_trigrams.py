"""Trigrams of texts, and what conditions ask of them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.filter.expression import Column, Expression, Function, Literal
from lance_ops.filter.predicates import Like
from lance_ops.filter.types.coercion import BOOL
from lance_ops.index.ngram.literals import required_literals
from lance_ops.index.ngram.trigrams import trigrams, trigrams_of

TEXT = st.text(st.sampled_from("aBc1 é½ß日𝐖İ-"), max_size=12)
COLUMN = Column(("s",), pa.string())


def number(trigram: str) -> int:
    first, second, third = (int(letter, 36) + 1 for letter in trigram)
    return (first * 37 + second) * 37 + third


def literal(text: str) -> Literal:
    return Literal(text, pa.string())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Abc1", ["abc", "bc1"]),
        ("ab cd", []),
        ("ab-cde", ["cde"]),
        ("Éta", ["eta"]),
        ("naße", ["nas", "ass", "sse"]),
        ("", []),
        ("日本語日本語", []),
    ],
)
def test_runs_of_three_letters_or_digits_count(text: str, expected: list[str]) -> None:
    assert trigrams_of(text) == {number(trigram) for trigram in expected}


@given(st.lists(st.one_of(st.none(), TEXT), max_size=12), st.integers(0, 3))
def test_texts_side_by_side_have_the_trigrams_of_each(texts: list[str | None], skipped: int) -> None:
    tokens, owners = trigrams(pa.array(["xyz"] * skipped + texts, pa.string()).slice(skipped))
    for place, text in enumerate(texts):
        found = frozenset(tokens[owners == place].tolist())
        assert found == (frozenset() if text is None else trigrams_of(text))


@given(TEXT, TEXT, TEXT)
def test_a_text_has_the_trigrams_of_its_parts(before: str, part: str, behind: str) -> None:
    assert trigrams_of(part) <= trigrams_of(before + part + behind)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Function("contains", (COLUMN, literal("abc")), BOOL), ("abc",)),
        (Like(COLUMN, literal("abc%de\\%f_g")), ("abc", "de%f", "g")),
        (Like(COLUMN, literal("abc"), ignore_case=True), ()),
        (Function("regexp_like", (COLUMN, literal("^abc.*de.f$")), BOOL), ("abc", "de", "f")),
        (Function("regexp_like", (COLUMN, literal("abc|def")), BOOL), ()),
        (Function("regexp_like", (COLUMN, literal("abc?d")), BOOL), ()),
        (Function("regexp_like", (COLUMN, literal("abc\\.d")), BOOL), ()),
        (Function("regexp_like", (COLUMN, literal("abc.?d")), BOOL), ()),
        (Function("regexp_like", (COLUMN, literal("ab.{0}cd")), BOOL), ()),
    ],
)
def test_literals_are_what_every_match_contains(condition: Expression, expected: tuple[str, ...]) -> None:
    assert required_literals(condition) == expected
