"""Words of Chinese strings by jieba, as pylance cuts them with a model folder.

pylance reads the dictionary from the folder. The library here brings its own, so that the folder has to hold
the same words: a search must never cut a query in another way than the index its strings.
"""

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from lance_ops.extras import load_extra
from lance_ops.index.inverted.tokenizers.model_folder import model_folder, unusable_model

_CONFIG, _DICTIONARY = "config.json", "dict.txt"
_KNOWN = "491593440999359377e9a431dee8b55b1f95a9c7a1bd24cffdfa58a92f14ca5b"
"""Digest of the words and frequencies of the library's own dictionary."""


def jieba_cut(tokenizer: str) -> Callable[[str], list[tuple[str, int]]]:
    """Return a tokenizer; longer words are returned in addition to their parts, positions count characters.

    Raises:
        MissingExtraError: The library is not installed.
        UnsupportedError: The model folder is missing, or has other words.
    """
    library = load_extra("rjieba")
    folder = model_folder(tokenizer)
    try:
        config = json.loads((folder / _CONFIG).read_bytes()) if (folder / _CONFIG).exists() else {}
        path = folder / (config.get("main") or _DICTIONARY)
        others = config.get("users")
        digest = _digest(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise unusable_model(tokenizer, f"cannot be read: {error}") from error
    if others or digest != _KNOWN:
        extra = f"user dictionaries ({others})" if others else "other words than the dictionary of jieba"
        raise unusable_model(
            tokenizer,
            f"has {extra}: that of jieba is the only one that is supported",
            hint="pylance can search and refresh the index",
        )
    return lambda text: [(word, start) for word, start, _ in library.tokenize(text, "search", True)]


@lru_cache(maxsize=8)
def _digest(path: Path, changed_at: int) -> str:
    del changed_at
    entries = [line.split()[:2] for line in path.read_bytes().splitlines()]
    return hashlib.sha256(b"\n".join(sorted(b" ".join(entry) for entry in entries if entry))).hexdigest()
