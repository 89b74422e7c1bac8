"""Tokenizer parameters of an index, from `params` in its files and the details of its entry."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError, InvalidArgumentError, UnsupportedError
from lance_ops.index.inverted.tokenizers.documents import JSON, TEXT
from lance_ops.index.inverted.tokenizers.libraries import FAMILIES, library_cut
from lance_ops.index.inverted.tokenizers.tables import LANGUAGES
from lance_ops.pb import table_pb2

CODE = "code"
BASE_TOKENIZERS = ("simple", "whitespace", "raw", "ngram", CODE)
_CODE_FLAGS = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
_MAX_NGRAM = 64
JSON_MODE, ONE_DOCUMENT = "json_tokenizer_mode", "single_document"
"""Newer releases of pylance can make several documents of a row."""
_OF_A_BUILD = frozenset({"format_version", "memory_limit", "num_workers"})
"""Parameters that do not affect tokens."""


@dataclass(frozen=True, slots=True)
class TextParameters:
    """Tokenizer parameters. The defaults are those of pylance.

    Attributes:
        lance_tokenizer: "text", or "json" for documents; None as old releases left it.
        base_tokenizer: "simple" (alphanumeric runs), "whitespace", "raw" (the whole string), "ngram",
            "code" (see `tokenizers.code`), "jieba/..." or "lindera/..."; pylance has more.
        language: Of stemming and stop words.
        with_position: True if the index has token positions, for phrases.
        max_token_length: Tokens of so many bytes, or more, are omitted; None to keep all.
        lower_case: True if words are in lower case.
        stem: True if tokens are stemmed.
        remove_stop_words: True if stop words are omitted.
        custom_stop_words: Replace those of the language.
        ascii_folding: True if accents are removed.
        min_ngram_length: Least number of characters of an n-gram.
        max_ngram_length: Greatest.
        prefix_only: True for n-grams at the beginning of a string only.
        block_size: Documents of a block of postings.
        split_identifiers: True if "code" cuts identifiers into parts.
        split_on_numerics: True if parts end between digits and others.
        preserve_original: True if an identifier is a token in addition to its parts.
        index_operators: True if operators are words.
        other: Parameters of newer releases, by name.
    """

    lance_tokenizer: str | None = "text"
    base_tokenizer: str = "simple"
    language: str = "English"
    with_position: bool = False
    max_token_length: int | None = 40
    lower_case: bool = True
    stem: bool = True
    remove_stop_words: bool = True
    custom_stop_words: tuple[str, ...] | None = None
    ascii_folding: bool = True
    min_ngram_length: int = 3
    max_ngram_length: int = 3
    prefix_only: bool = False
    block_size: int = 128
    split_identifiers: bool = False
    split_on_numerics: bool = False
    preserve_original: bool = False
    index_operators: bool = False
    other: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def from_json(cls, text: str, path: str) -> "TextParameters":
        """Parse the parameters in a file.

        Raises:
            CorruptFileError: It is not a JSON object, or a value has a wrong type.
        """
        try:
            given = json.loads(text)
            return _from_mapping(dict(given))
        except (TypeError, ValueError, InvalidArgumentError) as error:
            raise CorruptFileError(
                f"tokenizer parameters cannot be read: {error}", path=path, field="params"
            ) from error

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TextParameters":
        """Return the reverse of `to_dict`.

        Raises:
            InvalidArgumentError: A value has another type than it should.
        """
        return _from_mapping(values)

    @classmethod
    def from_details(cls, details: bytes) -> "TextParameters | None":
        """Return the parameters in an index entry; None if it has none, or invalid ones.

        Entries do not have custom stop words.
        """
        try:
            message = table_pb2.InvertedIndexDetails.FromString(details)
            if not message.HasField("base_tokenizer"):
                return None
            said = {name: getattr(message, name) for name in _IN_DETAILS}
            if message.HasField("code_config"):
                said |= {name: getattr(message.code_config, name) for name in _CODE_FLAGS}
            least, most = message.min_ngram_length, message.max_ngram_length
            return _from_mapping(
                {
                    **said,
                    "language": json.loads(message.language),
                    "max_token_length": (
                        message.max_token_length if message.HasField("max_token_length") else None
                    ),
                    **({"min_ngram_length": least, "max_ngram_length": most} if least and most else {}),
                }
            )
        except (DecodeError, ValueError, InvalidArgumentError):
            return None

    def with_block_size(self, block_size: int) -> "TextParameters":
        """Return the same for other blocks."""
        return replace(self, block_size=block_size)

    def to_json(self) -> str:
        """Convert to the JSON of files."""
        return json.dumps(self.to_dict(), separators=(",", ":"), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """By name, as JSON values."""
        known: dict[str, Any] = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name != "other"
        }
        if self.custom_stop_words is not None:
            known["custom_stop_words"] = list(self.custom_stop_words)
        if self.base_tokenizer != CODE:
            for name in _CODE_FLAGS:
                del known[name]
        return {**known, **dict(self.other)}

    def to_details(self, template: bytes, format_version: int) -> bytes:
        """Return the message of an index entry.

        Args:
            template: The message of an older segment, whose other fields stay.
            format_version: Of the files.
        """
        message = table_pb2.InvertedIndexDetails.FromString(template)
        message.base_tokenizer = self.base_tokenizer
        message.language = json.dumps(self.language)
        message.with_position = self.with_position
        if self.max_token_length is not None:
            message.max_token_length = self.max_token_length
        message.lower_case = self.lower_case
        message.stem = self.stem
        message.remove_stop_words = self.remove_stop_words
        message.ascii_folding = self.ascii_folding
        message.min_ngram_length = self.min_ngram_length
        message.max_ngram_length = self.max_ngram_length
        message.prefix_only = self.prefix_only
        message.block_size = self.block_size
        message.posting_format_version = format_version
        if self.base_tokenizer == CODE:
            for name in _CODE_FLAGS:
                setattr(message.code_config, name, getattr(self, name))
        return bytes(message.SerializeToString(deterministic=True))

    def require_known(self) -> None:
        """Check that the tokenizer is supported.

        Raises:
            UnsupportedError: Names the unsupported part.
        """
        if library_cut(self.base_tokenizer) is None and self.base_tokenizer not in BASE_TOKENIZERS:
            known = ", ".join((*BASE_TOKENIZERS, *FAMILIES))
            raise UnsupportedError(
                f"the tokenizer {self.base_tokenizer!r} is not supported",
                field="base_tokenizer",
                hint=f"known: {known}; pylance can search and refresh the index",
            )
        mode = dict(self.other).get(JSON_MODE)
        if mode not in (None, ONE_DOCUMENT):
            raise UnsupportedError(
                f"{JSON_MODE} {mode!r} is not supported",
                field=JSON_MODE,
                hint="pylance can search and refresh the index",
            )
        if self.lance_tokenizer not in (None, TEXT, JSON):
            raise UnsupportedError(
                f"tokenizer for {self.lance_tokenizer!r} is not supported",
                field="lance_tokenizer",
                hint="pylance can search and refresh the index",
            )
        if (self.stem or self.remove_stop_words) and self.language not in LANGUAGES:
            raise UnsupportedError(
                f"the language {self.language!r} is not supported",
                field="language",
                hint=f"known: {', '.join(LANGUAGES)}",
            )

    def require_no_others(self) -> None:
        """Check that there is no parameter of a later release.

        Raises:
            UnsupportedError: Names the parameter.
        """
        for name, value in self.other:
            if value not in (None, False) and name != JSON_MODE and name not in _OF_A_BUILD:
                raise UnsupportedError(
                    f"the parameter {name} = {value!r} of a full-text index is not known",
                    field=name,
                    hint="pylance can search and refresh the index",
                )


def text_parameters(given: Mapping[str, Any], tokenizer: str = TEXT) -> TextParameters:
    """Parse the parameters of a user.

    Args:
        given: The parameters.
        tokenizer: The `lance_tokenizer` of the column type.

    Raises:
        InvalidArgumentError: A parameter is invalid.
        UnsupportedError: The tokenizer or the language is not supported.
    """
    chosen = _from_mapping({"lance_tokenizer": tokenizer, **given})
    if chosen.lance_tokenizer != tokenizer:
        raise InvalidArgumentError(
            f"lance_tokenizer {chosen.lance_tokenizer!r} does not fit the column",
            field="lance_tokenizer",
            hint=f"leave it out; it is {tokenizer!r} here",
        )
    if chosen.other:
        raise InvalidArgumentError(
            f"INVERTED has no parameter {chosen.other[0][0]!r}",
            field="parameters",
            hint=f"known: {', '.join(item.name for item in fields(TextParameters) if item.name != 'other')}",
        )
    if chosen.base_tokenizer in ("ngram", CODE):
        # As pylance: what is cut out of the middle of words has no stem, nor has code.
        chosen = replace(
            chosen, stem=given.get("stem", False), remove_stop_words=given.get("remove_stop_words", False)
        )
    if chosen.base_tokenizer == CODE:
        chosen = replace(
            chosen,
            split_on_numerics=given.get("split_on_numerics", True),
            preserve_original=given.get("preserve_original", True),
        )
    elif flag := next((name for name in _CODE_FLAGS if getattr(chosen, name)), None):
        raise InvalidArgumentError(
            f"{flag} is for the tokenizer {CODE!r}, not {chosen.base_tokenizer!r}", field=flag
        )
    if not 1 <= chosen.min_ngram_length <= chosen.max_ngram_length <= _MAX_NGRAM:
        raise InvalidArgumentError(
            f"n-grams of {chosen.min_ngram_length} to {chosen.max_ngram_length} characters",
            field="min_ngram_length",
            hint=f"1 <= min_ngram_length <= max_ngram_length <= {_MAX_NGRAM}",
        )
    chosen.require_known()
    return chosen


def _from_mapping(given: Mapping[str, Any]) -> TextParameters:
    names = {item.name for item in fields(TextParameters)} - {"other"}
    known = {name: value for name, value in given.items() if name in names}
    words = known.get("custom_stop_words")
    if isinstance(words, list | tuple):
        known["custom_stop_words"] = tuple(words)
    for name, value in known.items():
        _check(name, value)
    # A release without a parameter does not support it: 0.19 had no n-grams.
    return TextParameters(**known, other=tuple((n, v) for n, v in given.items() if n not in names))


_IN_DETAILS = (
    "base_tokenizer",
    "with_position",
    "lower_case",
    "stem",
    "remove_stop_words",
    "ascii_folding",
    "prefix_only",
)
_TEXTS = frozenset({"base_tokenizer", "language"})
_NUMBERS = frozenset({"min_ngram_length", "max_ngram_length", "block_size"})
_OPTIONAL: Mapping[str, type] = {"lance_tokenizer": str, "max_token_length": int, "custom_stop_words": tuple}


def _check(name: str, value: Any) -> None:
    if name in _OPTIONAL:
        fits = value is None or isinstance(value, _OPTIONAL[name])
    else:
        wanted = str if name in _TEXTS else int if name in _NUMBERS else bool
        fits = isinstance(value, wanted)
    numeric = isinstance(value, int) and not isinstance(value, bool)
    if name in _NUMBERS or (name == "max_token_length" and value is not None):
        fits = fits and numeric and 0 < value < 1 << 32
    if name == "custom_stop_words" and value is not None and fits:
        fits = all(isinstance(word, str) for word in value)
    if not fits:
        raise InvalidArgumentError(f"{name} cannot be {value!r}", field=name)
