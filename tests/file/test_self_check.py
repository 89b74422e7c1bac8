"""What must not leave the writer: pages and files that other readers would not understand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.pages.ravel import ravel
from lance_ops.errors import LanceOpsError
from lance_ops.file.container.read import Page
from lance_ops.file.schema.model import Schema
from lance_ops.file.self_check import check_columns
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.encode_page import LeafColumn, encode_page
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.file.v2_1.self_check import check_page, check_positions
from lance_ops.file.versions import VERSIONS
from lance_ops.file.writer import FileWriter
from lance_ops.pb import encodings20_pb2
from lance_ops.storage import open_store


def encode(array: pa.Array, version: str = "2.2", **options: Any) -> EncodedPage:
    steps = []
    data_type = array.type
    while pa.types.is_list(data_type):
        steps.append(0)
        data_type = data_type.value_type
    (page,) = encode_page(
        LeafColumn("c", data_type, FieldOptions(**options), version), ravel(array, tuple(steps))
    )
    return page


def numbers() -> EncodedPage:
    return encode(pa.array(np.random.default_rng(0).integers(0, 2**40, 5000)))


def null_numbers() -> EncodedPage:
    return encode(pa.array([None if n % 3 == 0 else n * n for n in range(5000)]))


def few_strings() -> EncodedPage:
    return encode(pa.array([f"value {n % 7}" for n in range(5000)]))


def lists() -> EncodedPage:
    return encode(pa.array([[n * 7919] * (n % 4) for n in range(5000)], pa.list_(pa.int64())))


def texts() -> EncodedPage:
    return encode(pa.array([bytes([n % 251]) * 300 + str(n).encode() for n in range(100)]))


def vectors() -> EncodedPage:
    items = pa.array(np.random.default_rng(0).random(100 * 200, dtype=np.float32))
    return encode(pa.FixedSizeListArray.from_arrays(items, 200))


def constant() -> EncodedPage:
    return encode(pa.array([7] * 100))


def null_lists() -> EncodedPage:
    return encode(pa.array([None, []] * 100, pa.list_(pa.int8())))


def with_buffer(
    number: int, change: Callable[[np.ndarray], np.ndarray]
) -> Callable[[EncodedPage], EncodedPage]:
    def damage(page: EncodedPage) -> EncodedPage:
        buffers = [np.array(data, dtype=np.uint8) for data in page.buffers]
        buffers[number] = change(buffers[number])
        return replace(page, buffers=tuple(buffers))

    return damage


def with_layout(**changes: Any) -> Callable[[EncodedPage], EncodedPage]:
    def damage(page: EncodedPage) -> EncodedPage:
        layout = type(page.layout)()
        layout.CopyFrom(page.layout)
        inner = getattr(layout, layout.WhichOneof("layout"))
        for name, value in changes.items():
            setattr(inner, name, value)
        return replace(page, layout=layout)

    return damage


def set_bytes(start: int, *values: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(data: np.ndarray) -> np.ndarray:
        data[start : start + len(values)] = values
        return data

    return change


def drop_last(count: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda data: data[:-count]


BUILDERS = [numbers, null_numbers, few_strings, lists, texts, vectors, constant, null_lists]
DAMAGES = {
    "a chunk too few": (numbers, with_buffer(0, drop_last(4))),
    "chunks that are too short": (numbers, with_buffer(1, drop_last(8))),
    "too many values": (numbers, with_layout(num_items=5001)),
    "half a word": (numbers, with_buffer(0, drop_last(1))),
    "a part beyond its chunk": (numbers, with_buffer(1, set_bytes(2, 255, 255, 255, 0))),
    "sizes of 2.1": (numbers, with_layout(has_large_chunk=False)),
    "fewer levels than rows": (null_numbers, with_buffer(1, set_bytes(0, 1, 0))),
    "more levels than rows": (null_numbers, with_buffer(1, set_bytes(0, 255, 127))),
    "no dictionary": (few_strings, lambda page: replace(page, buffers=page.buffers[:2])),
    "an empty dictionary": (few_strings, with_layout(num_dictionary_items=0)),
    "no repetition index": (lists, lambda page: replace(page, buffers=page.buffers[:2])),
    "a short repetition index": (lists, with_buffer(2, drop_last(16))),
    "an index of other rows": (lists, with_buffer(2, set_bytes(0, 1, 0))),
    "leftovers at the end": (lists, with_buffer(2, lambda data: set_bytes(len(data) - 8, 1)(data))),
    "no index of rows": (texts, lambda page: replace(page, buffers=page.buffers[:1])),
    "an index that does not begin": (texts, with_buffer(1, set_bytes(0, 1))),
    "rows that run backwards": (texts, with_buffer(1, set_bytes(2, 255, 255))),
    "rows beyond the values": (texts, with_buffer(0, drop_last(1))),
    "a vector too few": (vectors, with_buffer(0, drop_last(800))),
    "half a vector": (vectors, with_buffer(0, drop_last(4))),
    "too many buffers": (constant, lambda page: replace(page, buffers=(np.zeros(8, np.uint8),) * 4)),
    "fewer levels than lists": (null_lists, with_layout(num_rep_values=3, num_def_values=3)),
    "levels that differ": (null_lists, with_layout(num_def_values=201)),
}


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_pages_of_the_writer_pass(build: Callable[[], EncodedPage]) -> None:
    page = build()
    check_page(page, page.num_rows, "2.2", "c")


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_pages_of_another_length_are_held_back(build: Callable[[], EncodedPage]) -> None:
    page = build()
    if page.layout.WhichOneof("layout") == "constant_layout" and not page.buffers:
        return
    if page.layout.WhichOneof("layout") == "constant_layout":
        longer = page.num_rows + 1000
        with pytest.raises(LanceOpsError, match="would not understand"):
            check_page(replace(page, num_rows=longer), longer, "2.2", "c")
        return
    with pytest.raises(LanceOpsError, match="would not understand"):
        check_page(replace(page, num_rows=page.num_rows + 1), page.num_rows + 1, "2.2", "c")


@pytest.mark.parametrize("name", DAMAGES)
def test_broken_pages_are_held_back(name: str) -> None:
    build, damage = DAMAGES[name]
    page = damage(build())
    with pytest.raises(LanceOpsError, match="would not understand"):
        check_page(page, page.num_rows, "2.2", "c")


def test_2_1_has_no_constants() -> None:
    with pytest.raises(LanceOpsError, match="a constant, which"):
        check_page(constant(), 100, "2.1", "c")


def test_positions_beyond_their_dictionary_are_held_back() -> None:
    check_positions(np.array([0, 1, 2], np.uint32), 3, "c")
    check_positions(np.array([], np.uint32), 0, "c")
    with pytest.raises(LanceOpsError, match="outside of its dictionary"):
        check_positions(np.array([0, 3], np.uint32), 3, "c")


class TestFiles:
    schema = Schema.from_arrow(
        pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int8())])), ("l", pa.list_(pa.string()))])
    )

    def pages(self, tmp_path: Path, version: str) -> tuple[dict[int, int], list[list[Page]]]:
        table = pa.table(
            {"a": range(100), "s": [{"x": 1}] * 100, "l": [["t", "u"]] * 100},
            schema=self.schema.to_arrow(),
        )
        writer = FileWriter(
            open_store(str(tmp_path)), "a.lance", self.schema, version=version, page_bytes=300
        )
        for batch in table.to_batches(max_chunksize=30):
            writer.write(batch)
        written = writer.finish()
        columns = dict(zip(written.field_ids, written.column_indices, strict=True))
        return columns, [list(pages) for pages in writer._container.pages]

    def check(self, columns: dict[int, int], pages: list[list[Page]], version: str, rows: int = 100) -> None:
        check_columns(self.schema, columns, pages, rows, 1 << 20, version)

    @pytest.mark.parametrize(
        "version", [version.name for version in VERSIONS if version.is_written and version.layout]
    )
    def test_columns_that_do_not_fit_together_are_held_back(self, version: str, tmp_path: Path) -> None:
        columns, pages = self.pages(tmp_path, version)
        self.check(columns, pages, version)
        for column in range(len(pages)):
            first = pages[column][0]
            damaged = {
                "rows": [replace(first, length=first.length + 1), *pages[column][1:]],
                "no pages": [],
                "start": [replace(first, priority=1000), *pages[column][1:]],
                "alignment": [replace(first, buffers=((65, 1),)), *pages[column][1:]],
                "end": [replace(first, buffers=((1 << 20, 1),)), *pages[column][1:]],
            }
            for wrong in damaged.values():
                with pytest.raises(LanceOpsError, match="would not understand"):
                    self.check(columns, [*pages[:column], wrong, *pages[column + 1 :]], version)
        with pytest.raises(LanceOpsError, match="would not understand"):
            self.check(columns, pages, version, rows=101)
        with pytest.raises(LanceOpsError, match="would not understand"):
            self.check(columns, pages[:-1], version)

    def test_a_struct_of_2_0_has_one_page(self, tmp_path: Path) -> None:
        columns, pages = self.pages(tmp_path, "2.0")
        (header,) = pages[1]
        pages[1] = [replace(header, length=50), replace(header, length=50, priority=50)]
        with pytest.raises(LanceOpsError, match="2 pages, readers expect one"):
            self.check(columns, pages, "2.0")

    def test_items_of_2_0_are_as_many_as_their_lists_say(self, tmp_path: Path) -> None:
        columns, pages = self.pages(tmp_path, "2.0")
        page = pages[3][0]
        encoding = encodings20_pb2.ArrayEncoding.FromString(page.encoding.value)
        encoding.list.num_items += 1
        pages[3][0] = replace(page, encoding=replace(page.encoding, value=encoding.SerializeToString()))
        with pytest.raises(LanceOpsError, match="expected 201, got 200"):
            self.check(columns, pages, "2.0")


def test_a_file_that_fails_the_check_never_appears(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    schema = Schema.from_arrow(pa.schema([("a", pa.int64())]))
    writer = FileWriter(store, "a.lance", schema, version="2.2")
    writer.write(pa.record_batch({"a": range(10)}))
    writer._num_rows = 11
    with pytest.raises(LanceOpsError, match="expected 11, got 10"):
        writer.finish()
    assert list(store.list("")) == []
