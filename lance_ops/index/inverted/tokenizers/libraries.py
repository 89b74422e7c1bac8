"""Tokenizers of external libraries, by the first part of `base_tokenizer`: `jieba/default`."""

from collections.abc import Callable, Mapping

from lance_ops.index.inverted.tokenizers.jieba import jieba_cut
from lance_ops.index.inverted.tokenizers.lindera import lindera_cut

Cut = Callable[[str], list[tuple[str, int]]]

FAMILIES: Mapping[str, Callable[[str], Cut]] = {"jieba": jieba_cut, "lindera": lindera_cut}


def library_cut(tokenizer: str) -> Cut | None:
    """Return what cuts a text into words with their positions; None for tokenizers that need no library.

    Raises:
        MissingExtraError: The library is not installed.
        UnsupportedError: Its model is missing, or cannot be used here.
    """
    family = FAMILIES.get(tokenizer.partition("/")[0])
    return None if family is None else family(tokenizer)
