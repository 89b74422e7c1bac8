"""The tree of an RTREE segment in its file: levels of pages, read from above and written from below."""

import itertools
import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.cache import Cache
from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.rtree.boxes import BOX, Boxes, around, overlap
from lance_ops.storage import Store
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.row_set import Addresses

PAGE_DATA = "page_data.lance"
NULLS = "nulls.lance"
FILE_VERSION = "2.1"
"""Storage version of index files, which all releases of pylance with this kind read.

Row numbers take a third of the space of 2.0.
"""
DEFAULT_PAGE = 4096

_CORNERS = [pa.field(name, pa.float64(), nullable=False) for name in BOX]
_SCHEMA = pa.schema(
    [
        pa.field(
            "bbox", pa.struct(_CORNERS), nullable=False, metadata={"ARROW:extension:name": "geoarrow.box"}
        ),
        pa.field("id", pa.uint64(), nullable=False),
    ]
)
_NULLS_SCHEMA = pa.schema([pa.field("nulls", pa.binary(), nullable=False)])
_READ_ROWS = 1 << 18
_MOST_PAGE = 1 << 31


def level_sizes(items: int, page: int) -> list[int]:
    """Entries of each level of a tree, the geometries first; a level of one page is the last."""
    sizes = [items]
    while sizes[-1] > page:
        sizes.append(-(-sizes[-1] // page))
    return sizes


@dataclass(frozen=True, slots=True)
class TreeFile:
    """An open tree.

    Attributes:
        reader: The file.
        items: Geometries in it.
        page: Entries of a page.
        kept: Cache of validated pages.
    """

    reader: FileReader
    items: int
    page: int
    kept: Cache[Hashable, Any] = field(
        default_factory=lambda: Cache("rtree pages"), repr=False, compare=False
    )

    @classmethod
    def open(cls, store: Store, path: str) -> "TreeFile":
        """Open a file.

        Raises:
            CorruptFileError: It has other columns, or not the rows that its metadata say.
        """
        reader = FileReader.open(store, path)
        columns = reader.schema.to_arrow()
        if columns.names != _SCHEMA.names or columns.types != _SCHEMA.types:
            raise CorruptFileError(f"its columns are {columns.names}", path=path, field="schema")
        try:
            items, page = (int(reader.schema.metadata[key]) for key in ("num_items", "page_size"))
        except (KeyError, ValueError):
            items, page = 0, 0
        if page < 2 or page > _MOST_PAGE or items < 0 or sum(level_sizes(items, page)) != reader.num_rows:
            raise CorruptFileError(
                f"{items} geometries in pages of {page} do not make {reader.num_rows} entries",
                path=path,
                field="num_items",
            )
        return cls(reader, items, page)

    def bounds(self) -> Boxes:
        """Return the box around all geometries, NaN where it is not known."""
        sizes = level_sizes(self.items, self.page)
        return around(self._read(self.reader.num_rows - sizes[-1], self.reader.num_rows)[0])

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Boxes, Addresses]]:
        """Boxes and rows of geometries, some at a time."""
        last = self.items if stop is None else min(stop, self.items)
        for first in range(start, last, _READ_ROWS):
            yield self._read(first, min(first + _READ_ROWS, last))

    def search(self, box: Boxes) -> Addresses:
        """Return rows of the geometries whose boxes have a point in common with a box.

        Raises:
            CorruptFileError: The levels of the tree are inconsistent.
        """
        if self.items <= self.page:
            pages = np.arange(min(self.items, 1))
        else:
            pages = np.flatnonzero(overlap(self._told(), box))
        found: list[Addresses] = [np.zeros(0, np.uint64)]
        for number in pages.tolist():
            boxes, rows = self._leaf(number)
            found.append(rows[overlap(boxes, box)])
        return np.concatenate(found)

    def _told(self) -> Boxes:
        """Return the box of each leaf page from the level above; cached, and only if it refers to these."""
        found: Boxes | None = self.kept.get("told")
        if found is None:
            count = level_sizes(self.items, self.page)[1]
            found, numbers = self._read(self.items, self.items + count)
            if not np.array_equal(numbers, np.arange(count, dtype=np.uint64)):
                raise self._contradiction()
            self.kept.put("told", found, found.nbytes)
        return found

    def _leaf(self, number: int) -> tuple[Boxes, Addresses]:
        """Return a leaf page after comparing it with the level above; recently read ones are cached."""
        found: tuple[Boxes, Addresses] | None = self.kept.get(number)
        if found is None:
            found = self._read(number * self.page, min((number + 1) * self.page, self.items))
            if self.items > self.page and not np.array_equal(around(found[0]), self._told()[number]):
                raise self._contradiction()
            self.kept.put(number, found, found[0].nbytes + found[1].nbytes)
        return found

    def check(self) -> None:
        """Check that every page matches the level above.

        Raises:
            CorruptFileError: One does not.
        """
        sizes = level_sizes(self.items, self.page)
        start = 0
        number = 0
        for size, above in itertools.pairwise(sizes):
            for place in range(above):
                first = start + place * self.page
                boxes, _ = self._read(first, min(first + self.page, start + size))
                told, pointed = self._read(start + size + place, start + size + place + 1)
                if not np.array_equal(around(boxes), told[0]) or int(pointed[0]) != number:
                    raise self._contradiction()
                number += 1
            start += size

    def statistics(self) -> Mapping[str, Any]:
        """Return numbers by the names that pylance gives them."""
        offsets: list[int] = []
        start = 0
        for size in level_sizes(self.items, self.page):
            offsets += range(start, start + size, self.page)
            start += size
        box = _json_box(self.bounds()) if self.items else _json_box(np.full(4, np.nan))
        return {
            "page_size": self.page,
            "num_pages": len(offsets),
            "num_items": self.items,
            "bbox": box,
            "page_offsets": offsets,
        }

    def _read(self, start: int, stop: int) -> tuple[Boxes, Addresses]:
        rows = self.reader.read_table(start=start, stop=stop)
        corners = rows["bbox"].combine_chunks()
        corners = corners if isinstance(corners, pa.Array) else pa.concat_arrays(corners.chunks)
        boxes = np.column_stack([corners.field(name).to_numpy(zero_copy_only=False) for name in BOX])
        return boxes.astype(np.float64), np.asarray(rows["id"].to_numpy(), np.uint64)

    def _contradiction(self) -> CorruptFileError:
        return CorruptFileError(
            "a page does not match the level above it", path=self.reader.path, field="bbox"
        )


class TreeWriter:
    """Streams geometries, in the order of the leaves, into a file; use as a context manager, then `finish`.

    Args:
        store: Where it goes.
        directory: Directory of the segment.
        page: Entries of a page.
    """

    def __init__(self, store: Store, directory: str, page: int) -> None:
        self._file = FileWriter(
            store, f"{directory}/{PAGE_DATA}", Schema.from_arrow(_SCHEMA), version=FILE_VERSION
        )
        self._page = page
        self._open = np.zeros((0, 4))
        self._pages: list[Boxes] = []
        self._items = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._file.abort()

    def write(self, boxes: Boxes, rows: Addresses) -> None:
        """Add geometries."""
        self._file.write(_table(boxes, rows))
        self._items += len(boxes)
        pending = np.concatenate([self._open, boxes])
        whole = len(pending) - len(pending) % self._page
        self._pages += _around_pages(pending[:whole], self._page)
        self._open = pending[whole:]

    def finish(self) -> IndexFile:
        """Write the levels above the geometries; returns the file."""
        self._pages += _around_pages(self._open, self._page)
        level = np.array(self._pages).reshape(-1, 4)
        first = 0
        while len(level) > 1:
            self._file.write(_table(level, np.arange(first, first + len(level), dtype=np.uint64)))
            first += len(level)
            level = np.array(_around_pages(level, self._page)).reshape(-1, 4)
        # The page of the root counts, too.
        pages = first + len(level)
        box = _json_box(level[0]) if len(level) else _json_box(np.full(4, np.nan))
        told = {
            "page_size": str(self._page),
            "num_pages": str(pages),
            "num_items": str(self._items),
            "bbox": json.dumps(box, separators=(",", ":")),
        }
        self._file.add_schema_metadata({key: value.encode() for key, value in told.items()})
        return IndexFile(PAGE_DATA, self._file.finish().size_bytes)


def write_nulls(store: Store, directory: str, nulls: bytes) -> IndexFile:
    """Write the file of the null rows."""
    with FileWriter(
        store, f"{directory}/{NULLS}", Schema.from_arrow(_NULLS_SCHEMA), version=FILE_VERSION
    ) as writer:
        writer.write(pa.table([pa.array([nulls], pa.binary())], schema=_NULLS_SCHEMA))
        written = writer.finish()
    return IndexFile(NULLS, written.size_bytes)


def read_nulls(store: Store, directory: str) -> bytes:
    """Return the null rows, as they are stored.

    Raises:
        CorruptFileError: It is another file.
    """
    path = f"{directory}/{NULLS}"
    reader = FileReader.open(store, path)
    if reader.schema.to_arrow().types != _NULLS_SCHEMA.types or reader.num_rows != 1:
        raise CorruptFileError("it does not hold the null rows", path=path, field="schema")
    found: bytes = reader.read_table().column(0)[0].as_py()
    return found


def _table(boxes: Boxes, rows: Addresses) -> pa.Table:
    corners = [pa.array(np.ascontiguousarray(boxes[:, number])) for number in range(4)]
    return pa.table([pa.StructArray.from_arrays(corners, fields=_CORNERS), pa.array(rows)], schema=_SCHEMA)


def _around_pages(boxes: Boxes, page: int) -> list[Boxes]:
    return [around(boxes[start : start + page]) for start in range(0, len(boxes), page)]


def _json_box(box: npt.NDArray[np.float64]) -> dict[str, float | None]:
    corners = (float(value) if np.isfinite(value) else None for value in box)
    return dict(zip(("minx", "miny", "maxx", "maxy"), corners, strict=True))
