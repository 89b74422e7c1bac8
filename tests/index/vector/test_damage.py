"""Damaged files of vector indices: one error by name, never a crash, and nothing else stops."""

import warnings
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, UnreadableIndexError
from lance_ops.index.reading import reading
from lance_ops.index.registry import kind_of
from lance_ops.index.scored import NearestQuery
from lance_ops.index.vector.search import search_segment
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from tests.support.vectors import locate, queries, search, vector_table

pytestmark = pytest.mark.peer

KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ", "IVF_RQ")
FILES = ("index.idx", "auxiliary.idx")
MUTATIONS = 60


@pytest.fixture(scope="module", params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "t.lance"
    lance.write_dataset(vector_table(400, dimension=16), str(path), max_rows_per_file=200)
    parameters = {"num_sub_vectors": 4} if request.param == "IVF_PQ" else {}
    lance.dataset(str(path)).create_index("v", request.param, metric="l2", num_partitions=2, **parameters)
    return path


def mutate(content: bytes, random: np.random.Generator) -> bytes:
    """Some bytes other than they were, a part cut out, or the end gone."""
    way = random.integers(0, 4)
    start = int(random.integers(0, len(content)))
    if way == 0:
        return content[:start]
    if way == 1:
        return content[:start] + content[start + int(random.integers(1, 200)) :]
    changed = bytearray(content)
    # What files say of themselves is at their ends.
    at = start if way == 2 else max(0, len(content) - 1 - int(random.integers(0, 3000)))
    for place in range(at, min(at + int(random.integers(1, 5)), len(content))):
        changed[place] = int(random.integers(0, 256))
    return bytes(changed)


def uses(dataset: Dataset, segment: IndexMetadata, query: np.ndarray) -> tuple[Callable[[], object], ...]:
    kind = kind_of(segment)
    assert kind is not None
    return (
        lambda: kind.verify(dataset, segment, deep=True),
        lambda: kind.parameters_of(dataset, segment),
        lambda: list(kind.addresses(dataset, segment)),
        lambda: search_segment(dataset, segment, NearestQuery("v", query), locate(dataset, segment)),
    )


@pytest.mark.parametrize("name", FILES)
def test_whatever_is_done_with_a_damaged_segment_it_has_one_name(table: Path, name: str) -> None:
    dataset = lo.dataset(str(table))
    (segment,) = dataset.indices
    file = table / segment.directory / name
    sound = file.read_bytes()
    query = queries(vector_table(400, dimension=16), 1)[0]
    random = np.random.default_rng(len(sound))
    failed = 0
    try:
        for _ in range(MUTATIONS):
            file.write_bytes(mutate(sound, random))
            dataset = lo.dataset(str(table))
            for use in uses(dataset, segment, query):
                try:
                    with reading(segment), warnings.catch_warnings():
                        warnings.simplefilter("ignore", RuntimeWarning)
                        use()
                except UnreadableIndexError:
                    failed += 1
    finally:
        file.write_bytes(sound)
    assert failed > MUTATIONS // 2


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "emptied", "removed", "of another file"])
def test_a_compaction_goes_on_without_a_damaged_segment(tmp_path: Path, name: str, damage: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(vector_table(400, dimension=16), uri, max_rows_per_file=100)
    lo.create_index(uri, "v", "IVF_HNSW_SQ", parameters={"num_partitions": 2})
    lo.delete(uri, "id % 3 = 0")
    (segment,) = lo.dataset(uri).indices
    file = Path(uri) / segment.directory / name
    other = Path(uri) / segment.directory / FILES[name == FILES[0]]
    sound = file.read_bytes()
    if damage == "removed":
        file.unlink()
    else:
        file.write_bytes(
            {"cut": sound[: len(sound) // 2], "emptied": b"", "of another file": other.read_bytes()}[damage]
        )
    assert not lo.fsck(uri).ok
    lo.compact(uri)
    assert lo.dataset(uri).count_rows() == 266
    lo.create_index(uri, "v", "IVF_HNSW_SQ", parameters={"num_partitions": 2}, replace=True)
    query = queries(vector_table(400, dimension=16), 1)[0]
    assert len(search(uri, NearestQuery("v", query, k=10))) == 10
    assert lo.fsck(uri).ok


def test_parameters_that_nobody_could_ask_for_are_damage_and_no_fault_of_the_caller(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(vector_table(400, dimension=16), uri)
    lo.create_index(uri, "v", "IVF_HNSW_SQ", parameters={"num_partitions": 2})
    (segment,) = lo.dataset(uri).indices
    file = Path(uri) / segment.directory / "index.idx"
    sound = file.read_bytes()
    damaged = sound.replace(b'ef_construction\\":150', b'ef_construction\\":  0')
    assert damaged != sound
    file.write_bytes(damaged)
    lo.append(uri, vector_table(100, dimension=16))
    kind = kind_of(segment)
    assert kind is not None
    with pytest.raises(UnreadableIndexError, match="ef_construction"):
        kind.parameters_of(lo.dataset(uri), segment)
    assert "ef_construction" in lo.optimize_indices(uri).skipped[0]
    assert lo.dataset(uri).count_rows() == 500


def test_a_vector_of_another_length_is_refused(table: Path) -> None:
    dataset = lo.dataset(str(table))
    (segment,) = dataset.indices
    with pytest.raises(LanceOpsError):
        search_segment(dataset, segment, NearestQuery("v", np.ones(3, np.float32)), locate(dataset, segment))
