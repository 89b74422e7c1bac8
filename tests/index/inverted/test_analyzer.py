"""Texts are cut into the words, at the positions, that the peer cuts them into."""

import random

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.index.inverted.tokenizers.analyzer import Analyzer
from lance_ops.index.inverted.tokenizers.parameters import text_parameters
from lance_ops.index.inverted.tokenizers.tables import LANGUAGES, alphanumeric, stop_words
from tests.safety.profile import examples

pytestmark = pytest.mark.peer

_FLAGS = ("lower_case", "stem", "remove_stop_words", "ascii_folding")
_WORDS = sorted({word for language in LANGUAGES for word in stop_words(language)})
_ENDINGS = ("", "s", "ed", "ing", "ly", "tion", "ness", "able", "en", "er", "es", "mente", "ción")
_word = st.one_of(
    st.builds(lambda word, end: word + end, st.sampled_from(_WORDS), st.sampled_from(_ENDINGS)),
    st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCÜÄßéİΣ\u03c20129", min_size=1, max_size=45),
    st.text(max_size=6),
)
_gap = st.sampled_from([" ", "", "-", "\t", "。", "\x0b"])
_text = st.builds(lambda words, gap: gap.join(words), st.lists(_word, max_size=8), _gap)


@st.composite
def _parameters(draw: st.DrawFn) -> dict[str, object]:
    found: dict[str, object] = {
        "base_tokenizer": draw(st.sampled_from(["simple", "simple", "whitespace", "raw", "ngram"])),
        "language": draw(st.sampled_from(LANGUAGES)),
        "max_token_length": draw(st.sampled_from([40, None, 5])),
        **{name: draw(st.booleans()) for name in _FLAGS},
    }
    if draw(st.booleans()):
        found["custom_stop_words"] = draw(st.lists(_word, max_size=3))
    if found["base_tokenizer"] == "ngram":
        least = draw(st.integers(1, 3))
        found |= {"min_ngram_length": least, "max_ngram_length": draw(st.integers(least, 4))}
        found["prefix_only"] = draw(st.booleans())
    return found


def _ours(parameters: dict[str, object], text: str) -> list[str]:
    return [word for word, _ in Analyzer(text_parameters(parameters)).query_words(text)]


def _theirs(parameters: dict[str, object], text: str) -> list[str]:
    return [token.text for token in lance.tokenize(text, **parameters)]


@given(parameters=_parameters(), text=_text)
@examples(300)
def test_a_text_has_the_words_that_it_has_for_the_peer(parameters: dict[str, object], text: str) -> None:
    ours = Analyzer(text_parameters(parameters)).query_words(text)
    assert list(ours) == [(token.text, token.position) for token in lance.tokenize(text, **parameters)]


@given(parameters=_parameters(), texts=st.lists(st.none() | _text, max_size=6))
@examples(100)
def test_many_texts_have_the_words_that_each_has(
    parameters: dict[str, object], texts: list[str | None]
) -> None:
    analyzer = Analyzer(text_parameters(parameters))
    words = analyzer.words(pa.array(texts, pa.string()))
    found: list[list[str]] = [[] for _ in texts]
    for number, owner in zip(words.numbers, words.texts, strict=True):
        found[owner].append(words.vocabulary[number])
    assert found == [
        [word for word, _ in analyzer.query_words(text)] if text is not None else [] for text in texts
    ]


def test_letters_and_digits_are_those_of_the_peer() -> None:
    points = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    plain = {**dict.fromkeys(_FLAGS, False), "max_token_length": None}
    found = set(_theirs(plain, "\n".join(f"Q{chr(point)}Z" for point in points)))
    table = alphanumeric()
    assert [point for point in points if bool(table[point]) != (f"Q{chr(point)}Z" in found)] == []


@pytest.mark.parametrize("name", ["lower_case", "ascii_folding"])
def test_every_letter_becomes_what_it_becomes_in_the_peer(name: str) -> None:
    parameters = {"base_tokenizer": "whitespace", "max_token_length": None, **dict.fromkeys(_FLAGS, False)}
    parameters[name] = True
    text = " ".join(chr(point) for point in range(0x21, 0x20000) if not 0xD800 <= point < 0xE000)
    assert _ours(parameters, text) == _theirs(parameters, text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_that_say_nothing_are_those_of_the_peer(language: str) -> None:
    parameters = {"base_tokenizer": "whitespace", "language": language, "stem": False, "ascii_folding": False}
    text = " ".join([*_WORDS, "not", "lance"])
    assert _ours(parameters, text) == _theirs(parameters, text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_stems_of_many_words_are_those_of_the_peer(language: str) -> None:
    generator = random.Random(3)
    own = sorted(stop_words(language))
    text = " ".join(generator.choice(own) + generator.choice(_ENDINGS) for _ in range(500))
    parameters = {"language": language, "remove_stop_words": False}
    assert _ours(parameters, text) == _theirs(parameters, text)


@pytest.mark.parametrize("name", ["icu", "icu/split", "lance"])
def test_a_tokenizer_that_is_not_known_here_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        text_parameters({"base_tokenizer": name})


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"stemm": True}, "parameters"),
        ({"stem": "yes"}, "stem"),
        ({"min_ngram_length": 0}, "min_ngram_length"),
        ({"base_tokenizer": "ngram", "min_ngram_length": 4, "max_ngram_length": 3}, "min_ngram_length"),
        ({"max_token_length": -1}, "max_token_length"),
        ({"split_identifiers": True}, "split_identifiers"),
        ({"base_tokenizer": "raw", "index_operators": True}, "index_operators"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused(parameters: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        text_parameters(parameters)
    assert caught.value.field == field


def test_a_language_that_is_not_known_is_refused_where_it_matters() -> None:
    with pytest.raises(UnsupportedError, match="Klingon"):
        text_parameters({"language": "Klingon"})
    text_parameters({"language": "Klingon", "stem": False, "remove_stop_words": False})
