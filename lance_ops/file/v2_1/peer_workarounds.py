"""Workarounds for pylance: layers that need a level although nothing in them is null or empty.

In principle a page declares only layers that occur in it. Pylance reads two cases wrongly:

- A struct that is never null in one page but is in another, with lists below it: pylance takes the number of
  the page's values for that of its structs, and moves the nulls of the pages behind it. Such a struct is
  nullable in each page if the schema allows nulls there, or in a struct around it.
- A list without a level, at any depth below a struct that can be null. To find the entries that are structs,
  pylance compares the number of lists below the struct with the number of lists that have levels: null and
  empty lists around the struct are then counted as structs ("Incorrect number of nulls for StructArray"), or
  a null at the start of a list is taken for a null list. Such a list is declared to be possibly empty.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lance_ops.encoding.pages.levels import Layer
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.file.schema.logical_types import LIST_TYPES
from lance_ops.file.schema.model import Field


def always_nullable_layers(fields: Sequence[Field]) -> tuple[bool, ...]:
    """Return which layers of a column have to be nullable in each page.

    Args:
        fields: From the top-level field to the leaf.

    Returns:
        One for each layer, from the innermost outwards.
    """
    found = []
    inside_nullable = False
    for number, field in enumerate(fields):
        if _is_list(field):
            inside_nullable = False
            found.append(False)
            continue
        # A member of a null struct is null as well, even one that must not be.
        inside_nullable |= field.nullable
        # Pylance mistakes the number of fixed-size lists of structs as well.
        found.append(inside_nullable and any(map(_repeats, fields[number:])))
    found.reverse()
    return tuple(found)


def _is_list(field: Field) -> bool:
    return field.logical_type in LIST_TYPES or field.logical_type == "map"


def _repeats(field: Field) -> bool:
    return _is_list(field) or field.logical_type.startswith("fixed_size_list:struct:")


def declare_layers(raveled: Raveled, always_nullable: Sequence[bool]) -> Raveled:
    """Add the levels that layers need.

    Args:
        raveled: A page.
        always_nullable: Result of `always_nullable_layers`.
    """
    layers = [
        replace(layer, nullable=True) if wanted else layer
        for layer, wanted in zip(raveled.layers, always_nullable, strict=True)
    ]
    for number, layer in enumerate(layers):
        if layer.is_list and not layer.nullable and _below_nullable(layers[number + 1 :]):
            layers[number] = replace(layer, emptyable=True)
    if tuple(layers) == raveled.layers:
        return raveled
    if raveled.definition is None:
        definition = np.zeros(raveled.num_entries, dtype=np.uint16)
    else:
        definition = _moved_levels(raveled.layers, layers)[raveled.definition]
    return replace(raveled, layers=tuple(layers), definition=definition)


def is_misread(layers: Sequence[Layer]) -> bool:
    """Return whether pylance counts null or empty lists of a page as structs.

    Pages of pylance itself can be such, and those of earlier versions of lance_ops.

    Args:
        layers: Of the page, from the innermost outwards.
    """
    has_undeclared = struct_is_miscounted = False
    for layer in layers:
        if not layer.is_list:
            struct_is_miscounted |= has_undeclared and layer.nullable
        elif layer.nullable or layer.emptyable:
            if struct_is_miscounted:
                return True
        else:
            has_undeclared = True
    return False


def _below_nullable(outer: Sequence[Layer]) -> bool:
    return any(layer.nullable and not layer.is_list for layer in outer)


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
