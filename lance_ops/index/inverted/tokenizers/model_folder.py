"""Folders with language models of tokenizers, in the locations of pylance."""

import os
from pathlib import Path

from lance_ops.errors import UnsupportedError

_HOME = "LANCE_LANGUAGE_MODEL_HOME"
_DEFAULT_HOME = "~/.local/share/lance/language_models"


def model_folder(tokenizer: str) -> Path:
    """Return the folder of a model: `jieba/default` below the home of the models, also for `jieba`."""
    home = Path(os.environ.get(_HOME) or _DEFAULT_HOME).expanduser()
    return home / (tokenizer if "/" in tokenizer else f"{tokenizer}/default")


def unusable_model(tokenizer: str, problem: str, hint: str = "") -> UnsupportedError:
    """Return the error for a model that is missing or cannot be used."""
    return UnsupportedError(
        f"the model of the tokenizer {tokenizer!r} {problem}",
        path=str(model_folder(tokenizer)),
        field="base_tokenizer",
        hint=hint or f"set {_HOME} to the folder of the models; pylance's guide to full-text search has them",
    )
