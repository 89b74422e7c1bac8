"""Files of the first writers of 2.x: packed integers, strings of one length, zstd frames without a size."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.encoding.bits.bit_runs import unpack_bit_run
from lance_ops.encoding.general.compression import ZSTD, decompress
from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.v2_0.columns import ArrayColumn
from lance_ops.pb import encodings20_pb2 as pb
from lance_ops.storage import open_store
from tests.fixtures.write_early import build_rows

FIXTURES = Path(__file__).parents[1] / "fixtures"
NAMES = ["early-0.16.0-2.1", "early-0.19.1-2.0", "early-0.19.1-2.1"]


def _arms(encoding: pb.ArrayEncoding) -> set[str]:
    found = {encoding.WhichOneof("array_encoding") or ""}
    message = getattr(encoding, next(iter(found)))
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if isinstance(value, list | tuple) or hasattr(value, "append") else [value]:
            if isinstance(part, pb.ArrayEncoding):
                found |= _arms(part)
            elif hasattr(part, "values"):
                found |= _arms(part.values)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_the_first_writers_read_as_they_were_written(name: str) -> None:
    expected = build_rows()
    dataset = lo.dataset(FIXTURES / name)

    found = dataset.to_table()

    assert found.column_names == expected.column_names
    for column in expected.column_names:
        assert found[column].to_pylist() == expected[column].to_pylist(), column


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [[0], [1099], [3, 4, 5, 700, 1023, 1024, 1025], list(range(1, 1100, 7))])
def test_single_rows_of_the_first_writers(name: str, rows: list[int]) -> None:
    expected = build_rows().take(pa.array(rows))
    found = lo.dataset(FIXTURES / name).take(rows)

    for column in expected.column_names:
        assert found[column].to_pylist() == expected[column].to_pylist(), column


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("start", "stop"), [(1, 9), (1000, 1030), (1023, 1025), (7, 1100)])
def test_ranges_of_the_first_writers(name: str, start: int, stop: int) -> None:
    expected = build_rows().slice(start, stop - start)
    dataset = lo.dataset(FIXTURES / name)
    (fragment,) = dataset.fragments
    (file,) = fragment.files
    reader = FileReader.open(open_store(str(FIXTURES / name)), f"data/{file.path}")

    found = reader.read_table(dataset.lance_schema, file.live_columns, start=start, stop=stop)

    for column in expected.column_names:
        assert found[column].to_pylist() == expected[column].to_pylist(), column


def test_the_fixtures_hold_what_they_are_for() -> None:
    found: set[str] = set()
    for name in NAMES:
        (file,) = (FIXTURES / name / "data").iterdir()
        reader = FileReader.open(open_store(str(file.parent)), file.name)
        for index in range(reader.num_columns):
            column = reader.column(index)
            assert isinstance(column, ArrayColumn)
            for page in column.pages:
                found |= _arms(page.encoding)
    assert {"bitpacked", "bitpacked_for_non_neg", "fixed_size_binary", "dictionary", "list"} <= found


@given(
    st.integers(1, 64).flatmap(
        lambda width: st.tuples(st.just(width), st.lists(st.integers(0, 2**width - 1), max_size=40))
    ),
    st.integers(0, 10),
    st.booleans(),
)
def test_bit_runs_of_any_width(packed: tuple[int, list[int]], first: int, signed: bool) -> None:
    width, values = packed
    bits = next(bits for bits in (8, 16, 32, 64) if width <= bits)
    run = sum(value << width * number for number, value in enumerate([0] * first + values))
    data = run.to_bytes(((first + len(values)) * width + 7) // 8, "little")

    words = unpack_bit_run(np.frombuffer(data, np.uint8), first, len(values), width, bits, signed=signed)

    if signed:
        values = [value - (value >> width - 1 << width) for value in values]
        assert words.view(f"i{bits // 8}").tolist() == values
    else:
        assert words.tolist() == values


@pytest.mark.parametrize(("width", "count"), [(0, 1), (9, 1), (8, 5)])
def test_bit_runs_that_cannot_be_are_refused(width: int, count: int) -> None:
    with pytest.raises(CorruptFileError):
        unpack_bit_run(np.zeros(4, np.uint8), 0, count, width, 8, signed=False)


def test_a_zstd_frame_may_lack_its_size() -> None:
    plain = b"abc" * 1000
    frame = pa.Codec(ZSTD).compress(plain)
    assert decompress(ZSTD, frame).to_pybytes() == plain
    with pytest.raises(CorruptFileError):
        decompress(ZSTD, frame.slice(0, frame.size - 1))
