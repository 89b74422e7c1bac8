"""Schema evolution: a file seen with the current columns of the table.

Dropped columns are left out, and columns added after the file are null. A column is dropped or kept with
everything below it; anything finer needs a rewrite of rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from lance_ops.errors import UnsupportedError
from lance_ops.file.container.read import Column, Encoding, Page
from lance_ops.file.page_copy.obstacles import SameSchema, assign_to_schema, assigned_columns, is_same_field
from lance_ops.file.page_copy.source import OpenSource, Wanted
from lance_ops.file.schema.model import Field
from lance_ops.file.v2_1.columns import PAGE_LAYOUT_URL
from lance_ops.pb import encodings21_pb2

_WITH_NULL_PAGES = ("2.1", "2.2")


def see_as(source: OpenSource, wanted: Wanted) -> OpenSource:
    """Present a file with the columns of another schema.

    Args:
        source: The file.
        wanted: The schema, and the columns of its fields in the file.

    Raises:
        UnsupportedError: A column of the file differs from the schema.
    """
    own = assigned_columns(source)
    if len(own) != len(source.columns):
        raise UnsupportedError(
            f"its schema has {len(own)} columns, but the file has {len(source.columns)}", path=source.path
        )
    tops = {own[node.id]: top for top in source.schema.fields for node in top.walk() if node.id in own}
    assigned = assign_to_schema(source.version, SameSchema(wanted.schema))
    found: dict[int, Column] = {}
    for top in wanted.schema.fields:
        ids = [node.id for node in top.walk() if node.id in assigned]
        held = [wanted.columns.get(field_id, -1) for field_id in ids]
        if all(column < 0 for column in held):
            found.update((assigned[field_id], _nulls(source, top)) for field_id in ids)
            continue
        match = tops.get(held[0])
        if match is None or not _is_same(top, match, wanted.columns, own, assigned):
            raise UnsupportedError(
                f"its column {top.name!r} differs from that of the table", path=source.path, field=top.name
            )
        found.update(
            (assigned[field_id], source.columns[column]) for field_id, column in zip(ids, held, strict=True)
        )
    columns = tuple(found[number] for number in range(len(assigned)))
    return replace(source, schema=wanted.schema, columns=columns, starts=page_starts(columns))


def page_starts(columns: Sequence[Column]) -> tuple[tuple[int, ...], ...]:
    """Return the first row (or item) of each page of each column, with the total at the end."""
    return tuple(tuple(accumulate((page.length for page in c.pages), initial=0)) for c in columns)


def _is_same(
    field: Field,
    other: Field,
    columns: Mapping[int, int],
    own: Mapping[int, int],
    assigned: Mapping[int, int],
) -> bool:
    """Return whether a field of the table is a field of the file, in the column given by the table."""
    if not is_same_field(field, other) or len(field.children) != len(other.children):
        return False
    if (field.id in assigned) != (other.id in own):
        return False
    if field.id in assigned and columns.get(field.id) != own[other.id]:
        return False
    return all(
        _is_same(child, of_other, columns, own, assigned)
        for child, of_other in zip(field.children, other.children, strict=True)
    )


def _nulls(source: OpenSource, field: Field) -> Column:
    """Return a column of nulls, which has no data except its description."""
    if field.children or not field.nullable or source.version.name not in _WITH_NULL_PAGES:
        raise UnsupportedError(
            f"column {field.name!r} is not in the file, and cannot be written as null", path=source.path
        )
    layout = encodings21_pb2.PageLayout()
    layout.constant_layout.layers.append(encodings21_pb2.REPDEF_NULLABLE_ITEM)
    encoding = Encoding(PAGE_LAYOUT_URL, layout.SerializeToString(deterministic=True))
    pages = (Page((), source.num_rows, 0, encoding),) if source.num_rows else ()
    return Column(source.columns[0].encoding, pages)
