"""Search, check, move and merge a damaged index, and tell whether that ended as it must.

What a damaged file still says may be believed, for nothing in it can be checked against itself: an exact
index may then miss rows or name others. What it may never do is stop a search with anything but a typed
error, name a row that is not there or one twice, make an operation that moves or merges it crash, wait or
take all memory, or touch the rows themselves. And what has no end is noticed, so that the answer is right.
"""

import resource
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

import lance_ops as lo
from lance_ops.errors import LanceOpsError, UnreadableIndexError, UnreadableIndexWarning
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import IndexKind, SegmentBuild, SegmentMove
from lance_ops.index.registry import kind_of
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.storage import Store, open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import AddressMap
from tests.fuzz.check import MEMORY_FACTOR, MEMORY_SLACK
from tests.fuzz.index_corpus import IndexSample, Question
from tests.fuzz.index_damage import IndexFile, damage, truncate

_COPY = "_indices/copy"
_SCORES = ("_distance", "_score")


class WrongAnswerError(Exception):
    """A search or an operation had an outcome that no damage allows."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a search found: rows, and how far or how well."""

    ids: tuple[int, ...]
    scores: tuple[float, ...]


class _Known:
    """A sample in a store, and what is right about it."""

    def __init__(self, sample: IndexSample, uri: str) -> None:
        self.sample = sample
        self.uri = uri
        self.store: Store = open_store(uri)
        self.restore()
        dataset = lo.dataset(uri).snapshot()
        (self.segment,) = dataset.indices
        kind = kind_of(self.segment)
        assert kind is not None, sample.name
        self.kind: IndexKind = kind
        self.files = {path: IndexFile.read(self.store, path) for path in sample.index_files}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.live = frozenset(dataset.to_table(columns=["id"])["id"].to_pylist())
            self.by_index = [_ask(dataset, question) for question in sample.questions]
        self.by_scan = [
            _ask(dataset, question, scan=True) if "full_text_query" not in question else found
            for question, found in zip(sample.questions, self.by_index, strict=True)
        ]

    def restore(self) -> None:
        """Put everything back that a commit changed."""
        for item in list(self.store.list("")):
            if item.path not in self.sample.files:
                self.store.delete(item.path)
        for path, data in self.sample.files.items():
            self.store.put(path, data)


@dataclass(frozen=True, slots=True)
class Damaged:
    """One case.

    Attributes:
        known: What was damaged.
        path: The file.
        data: What it holds now; None where it is gone.
        cut: Whether only its end is missing, which is always noticed.
    """

    known: _Known
    path: str
    data: bytes | None
    cut: bool


class IndexExaminer:
    """Damages indices and works with them.

    Args:
        samples: Undamaged ones.
    """

    def __init__(self, samples: Sequence[IndexSample]) -> None:
        # Another one of this process has its own.
        root = f"memory://{uuid.uuid4().hex}"
        self._known = [_Known(sample, f"{root}/{number}") for number, sample in enumerate(samples)]
        self._scratch = open_store(f"{root}/scratch")
        files = [file for known in self._known for file in known.files.values()]
        self._data = {
            version: [file.data for file in files if file.version == version]
            for version in {file.version for file in files}
        }

    def damage(self, case: int) -> Damaged:
        """The damaged index with a number."""
        rng = Random(case)
        known = rng.choice(self._known)
        path = rng.choice(known.sample.index_files)
        file = known.files[path]
        if rng.random() < 0.02:
            return Damaged(known, path, None, cut=True)
        if rng.random() < 0.06:
            return Damaged(known, path, truncate(file.data, rng), cut=True)
        return Damaged(known, path, damage(file, self._data[file.version], self._scratch, rng), cut=False)

    def describe(self, case: int) -> tuple[str, bytes]:
        """See `CaseRunner.describe`."""
        damaged = self.damage(case)
        return f"{damaged.known.sample.name}, {damaged.path}", damaged.data or b""

    def run(self, case: int) -> str:
        """Damage an index and do something with it.

        Returns:
            "answer", or "error" if the damage was noticed.

        Raises:
            Exception: Anything but an error of the package: a bug.
        """
        damaged = self.damage(case)
        known, rng = damaged.known, Random(-case - 1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        try:
            if damaged.data is None:
                known.store.delete(damaged.path)
            else:
                known.store.put(damaged.path, damaged.data)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                noticed = _work(damaged, rng)
        finally:
            known.store.put(damaged.path, known.sample.files[damaged.path])
        _check_warnings(caught)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
        size = sum(map(len, known.sample.files.values()))
        if grown > MEMORY_FACTOR * size + MEMORY_SLACK:
            raise WrongAnswerError(f"{grown >> 20} MB of memory for a table of {size} bytes")
        return "error" if noticed or caught else "answer"


def _check_warnings(caught: Sequence[warnings.WarningMessage]) -> None:
    for warning in caught:
        if not issubclass(warning.category, UnreadableIndexWarning):
            place = f"{warning.filename}:{warning.lineno}"
            raise WrongAnswerError(f"{warning.category.__name__}: {warning.message} ({place})")


def _ask(dataset: Dataset, question: Question, *, scan: bool = False) -> _Answer:
    options: dict[str, Any] = {"use_scalar_index": False} if scan else {}
    arguments = dict(question)
    if scan and "nearest" in arguments:
        arguments["nearest"] = {**arguments["nearest"], "use_index": False}
    table: pa.Table = dataset.to_table(columns=["id"], **arguments, **options)
    scores = [table[name].to_pylist() for name in _SCORES if name in table.column_names]
    return _Answer(tuple(table["id"].to_pylist()), tuple(scores[0]) if scores else ())


def _work(damaged: Damaged, rng: Random) -> bool:
    known = damaged.known
    dataset = lo.dataset(known.uri).snapshot()
    choice = rng.random()
    if choice < 0.35 and known.sample.questions:
        return _search(damaged, dataset, rng)
    if choice < 0.55 and any("filter" in question for question in known.sample.questions):
        return _prune(known, dataset, rng)
    if choice < 0.58:
        return _upkeep(damaged, rng)
    action = rng.choice(_ACTIONS)
    if action is _merge and not known.kind.can_build:
        action = _remap
    try:
        action(known.kind, dataset, known.segment)
    except LanceOpsError:
        return True
    finally:
        known.store.delete_many([item.path for item in known.store.list(_COPY)])
    return False


def _search(damaged: Damaged, dataset: Dataset, rng: Random) -> bool:
    known = damaged.known
    number = rng.randrange(len(known.sample.questions))
    question = known.sample.questions[number]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = _ask(dataset, question)
        except LanceOpsError as error:
            if "full_text_query" in question and isinstance(error, UnreadableIndexError):
                # Only the index knows how its texts were cut into words.
                return True
            raise WrongAnswerError(f"{question} is not answered: {error!r}") from error
    _check_warnings(caught)
    if len(set(found.ids)) != len(found.ids):
        raise WrongAnswerError(f"{question}: rows twice: {found.ids}")
    if not known.live.issuperset(found.ids):
        raise WrongAnswerError(f"{question}: rows that are not there: {set(found.ids) - known.live}")
    most = question["nearest"]["k"] if "nearest" in question else question.get("limit", len(known.live))
    if len(found.ids) > most:
        raise WrongAnswerError(f"{question}: {len(found.ids)} rows")
    scanned = known.by_scan[number]
    if not known.sample.exact and "filter" in question and not set(found.ids) <= set(scanned.ids):
        raise WrongAnswerError(f"{question}: rows that do not match: {set(found.ids) - set(scanned.ids)}")
    right = [scanned] if caught else [scanned, known.by_index[number]]
    if (caught or damaged.cut) and not any(_same(question, found, one) for one in right):
        raise WrongAnswerError(f"{question}: {found} instead of {right}, {len(caught)} warnings")
    return bool(caught)


def _same(question: Question, found: _Answer, right: _Answer) -> bool:
    """Whether they agree: of rows that are equally near, any will do; words weigh otherwise in a scan."""
    if "full_text_query" in question:
        return len(found.ids) == len(right.ids) and ("limit" in question or set(found.ids) == set(right.ids))
    if right.scores:
        pairs = zip(sorted(found.scores), sorted(right.scores), strict=False)
        return len(found.ids) == len(right.ids) and all(abs(a - b) <= 1e-3 * max(abs(b), 1) for a, b in pairs)
    return sorted(found.ids) == sorted(right.ids)


def _prune(known: _Known, dataset: Dataset, rng: Random) -> bool:
    text = rng.choice([question["filter"] for question in known.sample.questions if "filter" in question])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pruning = IndexPruner().prune(dataset, dataset.parse_filter(text))
    if pruning is not None:
        covered = effective_fragments(dataset.manifest, known.segment)
        if not pruning.covered_fragment_ids <= covered:
            raise WrongAnswerError(f"{text}: an answer for fragments {pruning.covered_fragment_ids}")
    return bool(caught)


def _upkeep(damaged: Damaged, rng: Random) -> bool:
    """Refresh or compact: the rows stay, and whatever cannot be read is named."""
    known = damaged.known
    noticed = False
    try:
        if rng.random() < 0.5:
            noticed = bool(lo.optimize_indices(known.uri).skipped)
        else:
            noticed = bool(lo.compact(known.uri).skipped)
        ids = lo.dataset(known.uri).to_table(columns=["id"])["id"].to_pylist()
        if len(ids) != len(known.live) or set(ids) != known.live:
            raise WrongAnswerError(f"{len(ids)} rows are left of {len(known.live)}")
    except LanceOpsError as error:
        raise WrongAnswerError(f"upkeep stopped: {error!r}") from error
    finally:
        known.restore()
    return noticed


def _verify(kind: IndexKind, dataset: Dataset, segment: IndexMetadata) -> None:
    kind.verify(dataset, segment, deep=True)


def _glance(kind: IndexKind, dataset: Dataset, segment: IndexMetadata) -> None:
    kind.verify(dataset, segment, deep=False)
    kind.stale(dataset, segment)
    kind.sample(dataset, segment, 1 << 10)
    kind.fit(dataset, [segment])


def _addresses(kind: IndexKind, dataset: Dataset, segment: IndexMetadata) -> None:
    for part in kind.addresses(dataset, segment):
        if part.dtype.str != "<u8":
            raise WrongAnswerError(f"addresses are {part.dtype}")


def _statistics(kind: IndexKind, dataset: Dataset, segment: IndexMetadata) -> None:
    kind.statistics(dataset, segment)


def _parameters(kind: IndexKind, dataset: Dataset, segment: IndexMetadata) -> None:
    kind.parameters_of(dataset, segment)


def _remap(kind: IndexKind, dataset: Dataset, segment: IndexMetadata) -> None:
    kind.remap(SegmentMove(dataset, segment, _COPY, AddressMap([]), dataset))


def _merge(kind: IndexKind, dataset: Dataset, segment: IndexMetadata) -> None:
    column = dataset.lance_schema.path(segment.fields[0])
    build = SegmentBuild(
        dataset,
        dataset.lance_schema.field(column),
        column,
        (segment,),
        (),
        _COPY,
        not kind.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids),
        kind.parameters_of(dataset, segment),
        lambda function, tasks, _: [function(task) for task in tasks],
    )
    kind.merge(replace(build, prepared=kind.prepare(build)))


_ACTIONS: tuple[Callable[[IndexKind, Dataset, IndexMetadata], None], ...] = (
    _verify,
    _verify,
    _glance,
    _addresses,
    _statistics,
    _parameters,
    _remap,
    _remap,
    _merge,
    _merge,
)


def count_kinds(samples: Sequence[IndexSample]) -> Counter[str]:
    """How many samples there are of each kind."""
    return Counter(sample.name.split(" ")[0] for sample in samples)
