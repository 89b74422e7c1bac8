"""Narrow dictionaries: columns whose index type allows few values, such as pandas categories.

A reader joins the pages of a file, and pylance fails with "Dictionary key bigger than the key type" where
their dictionaries together have more values than the index type allows. So a file holds only rows whose
dictionaries fit together.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype

_NARROW_BITS = 16


def has_narrow_dictionary(data_type: pa.DataType) -> bool:
    """Return whether a type is, or contains, a dictionary with indices of 8 or 16 bits."""
    if isinstance(data_type, pa.BaseExtensionType):
        return has_narrow_dictionary(data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return bool(data_type.index_type.bit_width <= _NARROW_BITS)
    return any(has_narrow_dictionary(data_type.field(number).type) for number in range(data_type.num_fields))


def narrow_columns(schema: pa.Schema) -> list[str]:
    """Return names of the columns with narrow dictionaries."""
    return [field.name for field in schema if has_narrow_dictionary(field.type)]


class NarrowDictionaries:
    """The values of the narrow dictionaries of one data file.

    Args:
        schema: Of the rows.
        version: Storage version of the file.
    """

    def __init__(self, schema: pa.Schema, version: str) -> None:
        self._columns = narrow_columns(schema)
        # 2.0 stores nulls as an entry of the dictionary.
        self._reserved = int(version == "2.0")
        self._known: dict[tuple[str, int], pa.Array] = {}

    def add(self, batch: pa.RecordBatch) -> bool:
        """Add the dictionaries of a batch.

        Returns:
            False, and nothing is added, if they do not fit together with those added before.
        """
        found: dict[tuple[str, int], pa.Array] = {}
        for name in self._columns:
            for number, array in enumerate(_dictionaries(batch.column(name))):
                known = self._known.get((name, number))
                if known is None:
                    found[name, number] = array.dictionary
                    continue
                if known.equals(array.dictionary):
                    continue
                together = pa.concat_arrays([known, array.dictionary]).unique()
                highest = int(np.iinfo(number_dtype(array.type.index_type)).max)
                if len(together) + self._reserved > highest + 1:
                    return False
                found[name, number] = together
        self._known.update(found)
        return True


def _dictionaries(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    if isinstance(array.type, pa.BaseExtensionType):
        yield from _dictionaries(array.storage)
    elif pa.types.is_dictionary(array.type):
        if array.type.index_type.bit_width <= _NARROW_BITS:
            yield array
    elif pa.types.is_struct(array.type):
        for number in range(array.type.num_fields):
            yield from _dictionaries(array.field(number))
    elif pa.types.is_map(array.type):
        yield from _dictionaries(array.keys)
        yield from _dictionaries(array.items)
    elif array.type.num_fields:
        yield from _dictionaries(array.values)
