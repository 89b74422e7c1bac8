"""Merge by hash partitions: Spark joins rows of a DataFrame and of a dataset by their key.

Both sides are distributed. The driver sees no row: each partition returns the deleted rows by fragment and
the files it wrote, and the driver makes one commit.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from lance_ops.errors import InvalidArgumentError, PredicateError, SchemaMismatchError, TaskFailedError
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.delete.plan import FragmentMatch
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.ingest.recast import schema_conflict
from lance_ops.maintenance.merge_insert.clauses import Clauses
from lance_ops.maintenance.merge_insert.commit import MergedRows, commit_merged
from lance_ops.maintenance.merge_insert.partition import (
    PartitionResult,
    PartitionTask,
    Window,
    carried_keys,
    carried_type,
    hash_keys,
    merge_partition,
)
from lance_ops.maintenance.merge_insert.result import MergeResult
from lance_ops.maintenance.merge_insert.search import JoinTask, key_windows, selected, share_fragments
from lance_ops.maintenance.merge_insert.source import SourceRows, fitted, source_schema
from lance_ops.maintenance.runner import task_failed
from lance_ops.maintenance.tasks import remove_files
from lance_ops.maintenance.update.rewrite import data_paths
from lance_ops.spark.convert import from_spark
from lance_ops.spark.transport import (
    SPARK_ERRORS,
    capture,
    dump_task,
    load_outcome,
    refuse_memory_store,
    session_attempts,
    spark_reason,
)
from lance_ops.spark.types import adapt_schema, arrow_schema, spark_schema
from lance_ops.spark.writing.partition_writer import partition_id
from lance_ops.table.dataset import Dataset
from lance_ops.table.join_keys import KeyIndex, plain_keys
from lance_ops.table.manifest.fragments.totals import total_rows
from lance_ops.table.manifest.row_address_map import row_addresses
from lance_ops.table.scan.fragment_rows import FragmentRows

WINDOW_ROWS, WINDOW_BYTES = 1 << 18, 64 << 20
"""Minimum rows of both sides, and bytes, that are joined at once; a task holds a few times that."""

_ROWS_EACH, _BATCH_ROWS = 1 << 22, 1 << 16
_NUMBER, _SALT = "__lance_ops_number", "__lance_ops_salt"
_ADDRESS, _SELECTED = "__lance_ops_address", "__lance_ops_selected"
_OUTCOMES = "partition long, outcome binary"


@dataclass(frozen=True, slots=True)
class _Sides:
    """Layout of the shuffled rows of both sides.

    Attributes:
        on: Key columns.
        source: Columns of the source, in the order of the DataFrame, in Spark's types.
        given: The types to which they are converted first.
        wanted: Their types in the dataset.
    """

    on: tuple[str, ...]
    source: StructType
    given: pa.Schema
    wanted: pa.Schema

    @property
    def keys(self) -> list[str]:
        """Names of the columns by which rows are joined."""
        return [f"__lance_ops_key_{number}" for number in range(len(self.on))]

    @property
    def marks(self) -> StructType:
        """Columns of both sides: the key, and a number that spreads rows without one."""
        kinds = (carried_type(self.wanted.field(name).type) for name in self.on)
        keys = pa.schema(list(zip(self.keys, kinds, strict=True)))
        return StructType([*spark_schema(keys).fields, StructField(_SALT, LongType())])

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows from Spark to the types of the dataset."""
        names = [field.name for field in self.source.fields]
        return fitted(from_spark(batch.select(names), self.given), self.wanted)


def merge_partitions(
    df: DataFrame,
    run: Run,
    on: tuple[str, ...],
    clauses: Clauses,
    *,
    partitions: int | None,
) -> MergeResult:
    """Merge a DataFrame of any size; see `lance_ops.spark.merge_dataframe`.

    Args:
        df: The rows; computed whenever the merge is planned.
        run: The call.
        on: Key columns.
        clauses: Clauses of the merge.
        partitions: Number of partitions of the join.

    Raises:
        InvalidArgumentError: Several rows of the source have one key, or a row matches although no match is
            allowed.
        TaskFailedError: Spark failed; nothing was committed.
    """
    refuse_memory_store(run.store)
    fields = run.dataset.lance_schema.fields
    sides, schema = _sides(df, run.dataset, on, inserts=clauses.inserts)

    def work(attempt: Attempt) -> MergeResult:
        dataset = attempt.dataset
        if dataset.lance_schema.fields != fields:
            raise schema_conflict("merge_insert", dataset, ["the source was read with another schema"])
        found = _join(df, sides, schema, clauses, attempt, partitions)
        attempt.written += data_paths(found.new)
        if not (found.rows_inserted or found.rows_updated or found.rows_deleted):
            return MergeResult(**attempt.common(), on=on)
        return commit_merged(attempt, on, clauses, _merged(dataset, found))

    return cleans_up(run.replanned)(work)


def _sides(df: DataFrame, dataset: Dataset, on: tuple[str, ...], *, inserts: bool) -> tuple[_Sides, Schema]:
    given = adapt_schema(arrow_schema(df.schema), dataset.schema)
    schema = source_schema(given, dataset.lance_schema, on, inserts=inserts, uri=dataset.uri)
    return _Sides(on, df.schema, given, prepare_schema(schema).arrow), schema


def _merged(dataset: Dataset, found: PartitionResult) -> MergedRows:
    fragments = dataset.fragments_by_id
    matches = tuple(
        FragmentMatch(fragments[number], rows, dataset.deletion_vector(fragments[number]))
        for number, rows in sorted(found.matched.items())
    )
    return MergedRows(
        matches,
        tuple(found.new),
        found.rows_inserted,
        found.rows_updated,
        found.rows_deleted,
        found.told,
        partial(_adds, found.hashes),
    )


def _adds(hashes: "np.ndarray[tuple[int], np.dtype[np.uint64]] | None", columns: Sequence[pa.Array]) -> bool:
    """Return `AddedKeys.adds`; true if too many keys were added to know."""
    if hashes is None:
        return True
    return bool(np.isin(hash_keys(carried_keys(columns)), hashes).any())


def _join(
    df: DataFrame, sides: _Sides, schema: Schema, clauses: Clauses, attempt: Attempt, partitions: int | None
) -> PartitionResult:
    """Join both sides, and merge each partition."""
    dataset, spark = attempt.dataset, df.sparkSession
    # Pickled here: the error names the values that cannot be pickled.
    payload = dump_task(
        PartitionTask(
            dataset.narrowed(dataset.fragments),
            SourceRows(schema, sides.wanted.empty_table()),
            sides.on,
            clauses,
            clauses.parse_condition(sides.wanted, dataset.schema),
            attempt.run.commits.job_key,
        )
    )
    rows = total_rows(dataset.fragments)
    count = partitions or max(int(spark.conf.get("spark.sql.shuffle.partitions")), -(-rows // _ROWS_EACH))
    keys = [col(name) for name in sides.keys]
    attempts = session_attempts(spark)

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = partition_id()
        task = pickle.loads(payload)  # noqa: S301 - pickled above
        outcome = capture(lambda: merge_partition(task, iter_windows(batches, sides)), attempts)
        yield pa.RecordBatch.from_pydict({"partition": [partition], "outcome": [outcome]})

    attempt.run.report("joining and writing partitions", 0, count)
    both = _source(df, sides).unionByName(_target(spark, dataset, sides, clauses), allowMissingColumns=True)
    shuffled = both.repartition(count, *keys, col(_SALT)).sortWithinPartitions(*keys, col(_NUMBER))
    try:
        sent = shuffled.mapInArrow(merge, _OUTCOMES).collect()
    except SPARK_ERRORS as error:
        raise TaskFailedError(
            f"Spark could not compute, join or write the rows: {spark_reason(error)}; nothing was committed",
            path=dataset.uri,
            hint="see Spark's log; the executors must have lance_ops installed, access to the dataset "
            "and enough memory",
        ) from error
    attempt.run.report("joining and writing partitions", count, count)
    return _gathered(dataset, {int(row["partition"]): bytes(row["outcome"]) for row in sent})


def _source(df: DataFrame, sides: _Sides) -> DataFrame:
    """Return rows of the DataFrame with their keys, and numbers for their order."""
    fields = [StructField(field.name, field.dataType, True, field.metadata) for field in sides.source.fields]
    schema = StructType([*fields, *sides.marks.fields, StructField(_NUMBER, LongType())])

    def mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        start = partition_id() << 40
        for batch in batches:
            numbers = pa.array(np.arange(start, start + batch.num_rows))
            start += batch.num_rows
            rows = sides.fit(batch)
            marks = _marks([rows.column(name) for name in sides.on], numbers)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *marks, numbers], names=[*batch.schema.names, *sides.keys, _SALT, _NUMBER]
            )

    return df.mapInArrow(mark, schema)


def _target(spark: SparkSession, dataset: Dataset, sides: _Sides, clauses: Clauses) -> DataFrame:
    """Return keys and addresses of the rows of the dataset, and which of them are deleted without a match."""
    condition = clauses.parse_unmatched(dataset.schema)
    scans = [
        dump_task(
            JoinTask(
                dataset.narrowed(share),
                sides.on,
                KeyIndex.of([pa.nulls(0, pa.int64())] * len(sides.on))[0],
                condition=None,
                compared=None,
                touches_matched=clauses.touches_matched,
                deletes_unmatched=clauses.deletes_unmatched,
                unmatched=condition,
                candidates=(),
            )
        )
        for share in share_fragments(dataset.fragments, _ROWS_EACH)
    ]
    schema = StructType(
        [*sides.marks.fields, StructField(_ADDRESS, LongType()), StructField(_SELECTED, BooleanType())]
    )
    names = [field.name for field in schema.fields]

    def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for columns in _scanned(pickle.loads(scans[number])):  # noqa: S301 - pickled above
                    yield pa.RecordBatch.from_arrays(columns, names=names)

    # Each scan has its own partition.
    return spark.range(0, len(scans), 1, max(1, len(scans))).mapInArrow(scan, schema)


def _scanned(task: JoinTask) -> Iterator[list[pa.Array]]:
    for fragment in task.snapshot.fragments:
        rows = FragmentRows(task.snapshot, fragment, 0)
        for table, offsets in key_windows(task, rows, None):
            gone = np.full(len(offsets), task.deletes_unmatched)
            if task.unmatched is not None:
                gone &= selected(task.unmatched, table)
            live = pa.array(rows.is_live(offsets))
            addresses = pa.array(row_addresses(fragment.id, offsets).view(np.int64))
            columns = [table[name].combine_chunks() for name in task.on]
            found = [*_marks(columns, addresses), addresses, pa.array(gone)]
            for start in range(0, len(offsets), _BATCH_ROWS):
                part = live.slice(start, _BATCH_ROWS)
                yield [column.slice(start, _BATCH_ROWS).filter(part) for column in found]


def _marks(columns: Sequence[pa.Array], numbers: pa.Array) -> list[pa.Array]:
    """Return the key for the shuffle, and a number for rows without one, which spreads them."""
    keys = carried_keys([plain_keys(column) for column in columns])
    nowhere = reduce(pc.or_, [key.is_null() for key in keys])
    return [*keys, pc.if_else(nowhere, numbers, pa.scalar(0, pa.int64()))]


def iter_windows(batches: Iterable[pa.RecordBatch], sides: _Sides) -> Iterator[Window]:
    """Yield windows of a sorted partition; each has all rows of its keys.

    Args:
        batches: Rows of both sides, sorted by the key.
        sides: Their layout.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows < WINDOW_ROWS and size < WINDOW_BYTES:
            continue
        table = pa.Table.from_batches(held)
        cut = _last_key(table, sides.keys)
        if cut:
            yield _window(table.slice(0, cut), sides)
            # A copy, otherwise the whole window would stay in memory for its last rows.
            rest = table.slice(cut).take(pa.array(np.arange(table.num_rows - cut))).combine_chunks()
            held = rest.to_batches()
            rows, size = rest.num_rows, rest.nbytes
    if held:
        yield _window(pa.Table.from_batches(held), sides)


def _last_key(table: pa.Table, keys: Sequence[str]) -> int:
    """Return where the rows with the last key start."""
    others = np.zeros(table.num_rows, np.bool_)
    for name in keys:
        column = table[name].combine_chunks()
        last = column[len(column) - 1]
        differs = pc.not_equal(column, last).fill_null(True) if last.is_valid else column.is_valid()
        others |= np.asarray(differs.to_numpy(zero_copy_only=False), np.bool_)
    found = np.flatnonzero(others)
    return int(found[-1]) + 1 if len(found) else 0


def _window(table: pa.Table, sides: _Sides) -> Window:
    is_target = table[_ADDRESS].is_valid()
    target, source = table.filter(is_target), table.filter(pc.invert(is_target))
    names = [field.name for field in sides.source.fields]
    rows = [sides.fit(batch) for batch in source.select(names).combine_chunks().to_batches()]
    return Window(
        pa.Table.from_batches(rows, sides.wanted).combine_chunks(),
        [source[name].combine_chunks() for name in sides.keys],
        [target[name].combine_chunks() for name in sides.keys],
        target[_ADDRESS].to_numpy().astype(np.int64).view(np.uint64),
        np.asarray(target[_SELECTED].to_numpy(zero_copy_only=False), np.bool_),
    )


def _gathered(dataset: Dataset, sent: Mapping[int, bytes]) -> PartitionResult:
    """Return the results of all partitions.

    Raises:
        TaskFailedError: One of them failed. Files of the others are removed.
    """
    outcomes = {number: load_outcome(data) for number, data in sorted(sent.items())}
    total = PartitionResult()
    failed = [(number, outcome.error) for number, outcome in outcomes.items() if outcome.error is not None]
    for outcome in outcomes.values():
        if outcome.error is None:
            total.add(outcome.value)
    if failed:
        remove_files(dataset.store, data_paths(total.new))
        number, cause = failed[0]
        if isinstance(cause, (InvalidArgumentError, PredicateError, SchemaMismatchError)):
            raise cause
        raise task_failed(number, len(outcomes), cause) from cause
    return total
