"""Upper and lower case by the full mapping of Unicode: `upper('Straße')` is 'STRASSE'.

Arrow's kernels map one character to one. The methods of `str` map fully and know the final sigma; characters
that Python's version of Unicode may lack come from `letters.newer_lower_case`.
"""

from collections.abc import Callable
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.filter.functions.letters import alphanumeric, newer_lower_case
from lance_ops.filter.types.text_casts import each_distinct


@cache
def _newer_upper_case() -> dict[int, str]:
    return {ord(lower): chr(upper) for upper, lower in newer_lower_case().items()}


def upper(text: str) -> str:
    """Return the text in upper case."""
    return text.upper().translate(_newer_upper_case())


def lower(text: str) -> str:
    """Return the text in lower case."""
    return text.lower().translate(newer_lower_case())


def initcap(text: str) -> str:
    """Return the first character of each word in upper case, the others in lower case."""
    characters, inside, known = [], False, alphanumeric()
    for character in text:
        characters.append(lower(character) if inside else upper(character))
        inside = bool(known[ord(character)])
    return "".join(characters)


def upper_case(texts: pa.Array) -> pa.Array:
    """Return each text in upper case."""
    return _mapped(texts, pc.ascii_upper, upper)


def lower_case(texts: pa.Array) -> pa.Array:
    """Return each text in lower case."""
    return _mapped(texts, pc.ascii_lower, lower)


def _mapped(
    texts: pa.Array, of_ascii: Callable[[pa.Array], pa.Array], of_any: Callable[[str], str]
) -> pa.Array:
    """Map strings of ASCII by a kernel, and each other distinct text by a function."""
    mapped = of_ascii(texts)
    others = pc.fill_null(pc.invert(pc.string_is_ascii(texts)), False)
    if not others.true_count:
        return mapped
    return pc.replace_with_mask(mapped, others, each_distinct(texts.filter(others), of_any, texts.type))
