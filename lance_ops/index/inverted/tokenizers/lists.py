"""Values of columns that are searched for words: strings, lists of strings, and JSON documents.

The items of a list are one text, with a blank between them, as in pylance.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field
from lance_ops.index.column import value_type
from lance_ops.index.inverted.tokenizers.documents import JSON, TEXT


def holds_texts(field: Field) -> bool:
    """Return whether a column can be searched: strings, lists of strings or JSON documents."""
    kind = value_type(field)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = [child.logical_type for child in field.children]
        return _is_text(kind.value_type) and JSON_TYPE not in items
    return _is_text(kind) or field.logical_type == JSON_TYPE


def tokenizer_of(field: Field) -> str:
    """Return the `lance_tokenizer` of the text indices on a column."""
    return JSON if field.logical_type == JSON_TYPE else TEXT


def type_words(field: Field) -> str:
    """Return the name of a column type for errors."""
    nodes = (field, *field.children)
    return "JSON" if any(node.logical_type == JSON_TYPE for node in nodes) else str(field.storage_type)


def joined_items(values: pa.Array) -> pa.Array:
    """Join the non-null items of each list into one string. Strings are unchanged.

    Args:
        values: An array of `string` or `large_string`, or of lists of them.

    Returns:
        As many strings; null for null, and "" for a list without items.
    """
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        return values
    items = pc.list_flatten(values)
    known = items.is_valid()
    owners = pc.list_parent_indices(values).filter(known).to_numpy()
    ends = np.cumsum(np.bincount(owners, minlength=len(values)))
    offsets = pa.array(np.concatenate(([0], ends)), pa.int64())
    texts = items.filter(known).cast(pa.large_string())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, texts), pa.scalar(" ", texts.type))
    return pc.if_else(values.is_valid(), joined, pa.scalar(None, joined.type))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
