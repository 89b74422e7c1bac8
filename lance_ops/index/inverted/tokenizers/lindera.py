"""Tokens of Japanese and Korean strings by Lindera, with the release and configuration of pylance."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from lance_ops.extras import load_extra
from lance_ops.index.inverted.tokenizers.model_folder import model_folder, unusable_model

_CONFIG = "config.yml"
_RELEASE = "3.0."
"""Others read other dictionaries."""


def lindera_cut(tokenizer: str) -> Callable[[str], list[tuple[str, int]]]:
    """Return what cuts a text into words.

    Raises:
        MissingExtraError: The library is not installed.
        UnsupportedError: Another release of it is, or the model folder is missing or cannot be used.
    """
    library = load_extra("lindera")
    if not str(library.version()).startswith(_RELEASE):
        raise unusable_model(
            tokenizer,
            f"needs release {_RELEASE}x of Lindera, and {library.version()} is installed",
            hint="pip install 'lance-ops[lindera]'",
        )
    path = model_folder(tokenizer) / _CONFIG
    try:
        opened = _open(path, path.stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        raise unusable_model(tokenizer, f"cannot be read: {error}") from error
    return lambda text: [(token.surface, token.position) for token in opened.tokenize(text)]


@lru_cache(maxsize=8)
def _open(path: Path, changed_at: int) -> Any:
    del changed_at
    return load_extra("lindera").TokenizerBuilder().from_file(str(path)).build()
