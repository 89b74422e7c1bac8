"""Damaged files of full-text indices: a typed error, or an answer; nothing else, and not much later."""

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnreadableIndexError, UnsupportedError
from lance_ops.index.inverted.kind import InvertedKind
from lance_ops.index.inverted.merge import merge_partitions, merge_tasks
from lance_ops.index.inverted.query import MatchQuery, PhraseQuery
from tests.safety.profile import examples
from tests.support.text_queries import random_texts
from tests.support.text_search import search_ours

pytestmark = pytest.mark.peer

FORMATS: dict[str, dict[str, Any]] = {
    "peer, lists of positions": {"with_position": True, "format_version": 1},
    "peer, streams of positions": {"with_position": True},
    "peer, large blocks": {"with_position": True, "block_size": 256},
    "ours": {"with_position": True},
}


def _merge(uri: str) -> None:
    dataset, kind = lo.dataset(uri), InvertedKind()
    (segment,) = dataset.indices
    parameters = kind.parameters_of(dataset, segment)
    for task in merge_tasks(dataset, [segment], "_indices/merged", parameters):
        merge_partitions(task)


def _verify(uri: str) -> None:
    dataset = lo.dataset(uri)
    InvertedKind().verify(dataset, dataset.indices[0], deep=True)


OPERATIONS: tuple[Callable[[str], object], ...] = (
    lambda uri: search_ours(uri, MatchQuery("cat fox", "t")),
    lambda uri: search_ours(uri, MatchQuery("cta", "t", fuzziness=2)),
    lambda uri: search_ours(uri, PhraseQuery("cat fox", "t")),
    _verify,
    _merge,
)


@pytest.fixture(scope="module")
def tables() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        uris = {}
        for name, options in FORMATS.items():
            uri = f"{folder}/{len(uris)}"
            lance.write_dataset(pa.table({"t": random_texts(random.Random(2), 600)}), uri)
            if name == "ours":
                lo.create_index(uri, "t", "INVERTED", parameters=options)
            else:
                lance.dataset(uri).create_scalar_index("t", "INVERTED", **options)
            uris[name] = uri
        yield uris


@given(
    name=st.sampled_from(sorted(FORMATS)),
    number=st.integers(0, 3),
    where=st.floats(0, 1, exclude_max=True),
    value=st.sampled_from([None, 0, 1, 127, 128, 255]),
    width=st.integers(1, 4),
)
@examples(50)
def test_damage_anywhere_is_an_error_that_says_so_or_goes_unnoticed(
    tables: dict[str, str], name: str, number: int, where: float, value: int | None, width: int
) -> None:
    uri = tables[name]
    file = sorted(Path(uri).glob("_indices/*/*.lance"))[number]
    sound = file.read_bytes()
    place = int(where * len(sound))
    # None: the file ends there.
    damaged = (
        sound[:place] if value is None else sound[:place] + bytes([value]) * width + sound[place + width :]
    )
    file.write_bytes(damaged)
    try:
        for operation in OPERATIONS:
            try:
                operation(uri)
            except (UnreadableIndexError, UnsupportedError, InvalidArgumentError):
                assert damaged != sound
    finally:
        file.write_bytes(sound)
        shutil.rmtree(f"{uri}/_indices/merged", ignore_errors=True)


def test_a_missing_file_is_named_and_the_search_reads_the_texts(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"t": random_texts(random.Random(2), 300)}), uri)
    lo.create_index(uri, "t", "INVERTED")
    before = {
        row["_rowid"]
        for row in lo.dataset(uri).to_table(full_text_query="cat fox", with_row_id=True).to_pylist()
    }
    assert before
    next(Path(uri).glob("_indices/*/part_*_invert.lance")).unlink()
    with pytest.raises(UnreadableIndexError, match="invert"):
        search_ours(uri, "cat fox")
    with pytest.warns(UserWarning, match="t_idx"):
        table = lo.dataset(uri).to_table(full_text_query="cat fox", with_row_id=True)
    assert {row["_rowid"] for row in table.to_pylist()} == before
    assert not lo.fsck(uri, deep=True).ok


def test_an_index_without_partitions_is_kept_and_not_called_damage(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"t": ["red apple", "pear"]}), uri)
    lo.create_index(uri, "t", "INVERTED")
    (folder,) = Path(uri).glob("_indices/*")
    (folder / "metadata.lance").unlink()
    assert not lo.fsck(uri, deep=True).ok
    # The files of pylance 0.27 have these names.
    for file in folder.glob("part_*"):
        file.rename(folder / file.name.split("_", 2)[2])
    # The manifest of our index still names the files as they were; those of 0.27 name none.
    (found,) = lo.fsck(uri, deep=True).of("indices_readable")
    assert found.severity == "warning"
    assert "pylance 0.27" in found.message
    with pytest.warns(UserWarning, match="t_idx"):
        assert lo.dataset(uri).to_table(["t"], full_text_query="apple")["t"].to_pylist() == ["red apple"]
    before = lo.dataset(uri).indices
    assert lo.optimize_indices(uri).version == lo.dataset(uri).version
    assert lo.dataset(uri).indices == before
