"""Workarounds for the peer: layers that need a level of their own although nothing there is null or empty.

In principle a page declares only what occurs in it. The peer reads two cases wrongly, without an error:

- A struct that is never null in one page but is in another, with lists below it: the peer takes the number of
  the page's values for that of its structs, and moves the nulls of the pages behind it. Such a struct is
  nullable in each page if the schema says so.
- A list that is never null or empty, in a struct that can be null, over values that can be null: the peer
  takes a null at the start of such a list for a null list. Such a list is declared to be possibly empty.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lance_ops.encoding.pages.levels import Layer
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.file.schema.logical_types import LIST_TYPES
from lance_ops.file.schema.model import Field


def always_nullable_layers(fields: Sequence[Field]) -> tuple[bool, ...]:
    """Which layers of a column have to be nullable in each page.

    Args:
        fields: From the top-level field to the leaf.

    Returns:
        One for each layer, from the innermost outwards.
    """
    found = []
    repeated = False
    for field in reversed(fields):
        is_list = field.logical_type in LIST_TYPES or field.logical_type == "map"
        repeats = is_list or field.logical_type.startswith("fixed_size_list:struct:")
        # The number of fixed-size lists is one that the peer mistakes as well.
        found.append(field.nullable and not is_list and (repeated or repeats))
        repeated |= repeats
    return tuple(found)


def declare_layers(raveled: Raveled, always_nullable: Sequence[bool]) -> Raveled:
    """Give layers the levels that they need.

    Args:
        raveled: A page.
        always_nullable: As `always_nullable_layers` gives it.
    """
    layers = [
        replace(layer, nullable=True) if wanted else layer
        for layer, wanted in zip(raveled.layers, always_nullable, strict=True)
    ]
    for number, layer in enumerate(layers):
        if layer.is_list and not layer.nullable and _is_in_nullable(layers[number + 1 :]):
            layers[number] = replace(layer, emptyable=True)
    if tuple(layers) == raveled.layers:
        return raveled
    if raveled.definition is None:
        definition = np.zeros(raveled.num_entries, dtype=np.uint16)
    else:
        definition = _moved_levels(raveled.layers, layers)[raveled.definition]
    return replace(raveled, layers=tuple(layers), definition=definition)


def _is_in_nullable(above: Sequence[Layer]) -> bool:
    for layer in above:
        if layer.is_list:
            return False
        if layer.nullable:
            return True
    return False


def _moved_levels(
    before: Sequence[Layer], after: Sequence[Layer]
) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    # The new level of each old one.
    moved = [0]
    level = 0
    for old, new in zip(before, after, strict=True):
        for had, has in ((old.nullable, new.nullable), (old.emptyable, new.emptyable)):
            level += has
            if had:
                moved.append(level)
    return np.array(moved, dtype=np.uint16)
