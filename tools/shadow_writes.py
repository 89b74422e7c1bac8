"""Writes of the peer in the words of lance_ops, done on a copy of the table as it was before."""

import contextlib
import functools
import inspect
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance.types import _coerce_reader
from lance.udf import BatchUDF
from shadow_reads import NotOursError, location
from shadow_tables import table_difference

import lance_ops as lo

_MOST_BYTES = 200_000_000
_IGNORED = {
    "conflict_retries",
    "retry_timeout",
    "progress",
    "progress_callback",
    "session",
    "storage_options",
    "commit_lock",
    "max_rows_per_group",
    "data_cache_bytes",
    "max_page_bytes",
    "commit_message",
    "num_threads",
    "batch_size",
    "compaction_mode",
    "binary_copy_read_batch_bytes",
    "delete_rate_limit",
    "delete_concurrency",
    "error_if_tagged_old_versions",
    "use_legacy_format",
    "index_cache_size",
    "shuffle_partition_batches",
    "shuffle_partition_concurrency",
    "accelerator",
    "num_workers",
    "memory_limit",
    "write_mode",
}
"""Options that change how the peer works, and not what comes out."""


_folders: list[tempfile.TemporaryDirectory[str]] = []
"""In the place of datasets in the memory of the peer, until the process ends."""


@dataclass
class Write:
    """One write.

    Attributes:
        uri: The table of the user.
        version: The version that the user holds; None for a new table and for the newest.
        apply: The same by lance_ops, told the dataset to change, or the path of one that is to be made.
        numbers: What lance_ops says that it did, in the words of the peer's answer.
        checks: How the two tables are compared.
        args: Arguments for the peer, where these cannot be used twice.
    """

    uri: str
    version: int | None
    apply: Callable[[Any], Any]
    numbers: Callable[[Any], Mapping[str, int]] = field(default=lambda _: {})
    checks: dict[str, bool] = field(default_factory=dict)
    args: dict[str, Any] | None = None


@contextlib.contextmanager
def copied(write: Write) -> Iterator["Copy"]:
    """A copy of the table as it is now.

    Raises:
        NotOursError: The table cannot be copied.
    """
    root, inner = _root(write.uri)
    with tempfile.TemporaryDirectory(prefix="shadow-") as scratch:
        target = Path(scratch) / root.name
        if root.is_dir():
            if sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) > _MOST_BYTES:
                raise NotOursError("a table that is too large to be copied")
            shutil.copytree(root, target, symlinks=True)
        path = target / inner
        before = lo.dataset(path).version if (path / "_versions").is_dir() else None
        yield Copy(write, path, str(root / inner), before)


@dataclass(frozen=True)
class Copy:
    """Where lance_ops does a write.

    Attributes:
        write: The write.
        path: The copy.
        theirs: The table of the user.
        before: The newest version; None for a new table.
    """

    write: Write
    path: Path
    theirs: str
    before: int | None

    def apply(self) -> Any:
        """Do the write."""
        target: Any = self.path
        if self.write.version is not None:
            target = lo.dataset(self.path, version=self.write.version)
        return self.write.apply(target)

    def is_unchanged(self) -> bool:
        """Whether the copy is at the version that it began with."""
        exists = (self.path / "_versions").is_dir() and any((self.path / "_versions").iterdir())
        return (lo.dataset(self.path).version if exists else None) == self.before

    def difference(self, mine: Any, yours: Any) -> str | None:
        """What differs in the answers and in the tables.

        Args:
            mine: The answer of lance_ops.
            yours: The answer of the peer.
        """
        for name, number in self.write.numbers(mine).items():
            is_mapping = isinstance(yours, Mapping)
            said = yours.get(name, number) if is_mapping else getattr(yours, name, number)
            if said != number:
                return f"{name}: ours {number} | theirs {said}"
        return table_difference(self.path, self.theirs, before=self.before, **self.write.checks)


def _root(uri: str) -> tuple[Path, Path]:
    """The folder of the whole table, and where in it the branch lies."""
    plain = uri.removeprefix("file://")
    if "://" in plain or plain.startswith("memory:"):
        raise NotOursError("a table that is not in a local folder")
    path = Path(plain).expanduser().absolute()
    parts = path.parts
    if "tree" in parts and (root := Path(*parts[: parts.index("tree")])).joinpath("_versions").is_dir():
        return root, path.relative_to(root)
    return path, Path()


def _held(dataset: Any) -> tuple[str, int]:
    if getattr(dataset, "_namespace_client", None) is not None:
        raise NotOursError("a dataset of a namespace")
    return location(dataset._ds), int(dataset.version)


def _given(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(method).bind(*args, **kwargs)
    given = dict(bound.arguments)
    given.pop("self", None)
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            given.update(given.pop(parameter.name, {}))
    idle = {name: item.default for name, item in inspect.signature(method).parameters.items()}
    return {
        name: value
        for name, value in given.items()
        if name not in _IGNORED and not _same(value, idle.get(name, inspect.Parameter.empty))
    }


def _same(value: Any, other: Any) -> bool:
    try:
        return value is other or bool(value == other)
    except Exception:
        return False


def _only(given: Mapping[str, Any], *known: str) -> None:
    for name in given:
        if name not in known:
            raise NotOursError(f"the option {name}")


def _where(condition: Any) -> str | None:
    if condition is not None and not isinstance(condition, str):
        raise NotOursError("a filter as a pyarrow expression")
    return condition


def _twice(data: Any, schema: pa.Schema | None) -> tuple[Any, Callable[[], Any]]:
    """Data for the peer and for lance_ops, of data that may be read only once."""
    if isinstance(data, pa.Table | pa.RecordBatch) or type(data).__module__.startswith("pandas"):
        return data, lambda: data if schema is None else _coerce_reader(data, schema).read_all()
    if isinstance(data, pa.dataset.Dataset) or (isinstance(data, list) and data):
        try:
            kept = _coerce_reader(data, schema).read_all()
        except Exception as error:
            raise NotOursError(f"data that the peer does not take: {error}") from error
        return data, lambda: kept
    reader = _coerce_reader(data, schema)
    batches: list[pa.RecordBatch] = []
    failures: list[Exception] = []
    try:
        batches.extend(reader)
    except Exception as error:
        failures.append(error)

    def again() -> Iterator[pa.RecordBatch]:
        yield from batches
        for failure in failures:
            raise failure

    def make() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(reader.schema, again())

    return make(), make


# --- each write


def write_dataset(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Write:
    """Of `lance.write_dataset`."""
    given = _given(method, args, kwargs)
    target = given.pop("uri", None)
    if target is None:
        raise NotOursError("a dataset of a namespace")
    uri, version = _held(target) if hasattr(target, "_ds") else (str(target), None)
    data, schema = given.pop("data_obj"), given.pop("schema", None)
    mode = given.pop("mode", "create")
    given.pop("enable_v2_manifest_paths", None)
    properties = given.pop("transaction_properties", None)
    known = ("max_rows_per_file", "max_bytes_per_file", "data_storage_version", "enable_stable_row_ids")
    _only(given, *known)
    if type(data).__name__ in ("LanceDataset", "LanceScanner", "HuggingfaceDataset"):
        raise NotOursError(f"data from a {type(data).__name__}")
    if not uri.startswith("memory://"):
        _root(uri)
    theirs, ours = _twice(data, schema)
    bound = inspect.signature(method).bind(*args, **kwargs)
    bound.arguments["data_obj"] = theirs
    if theirs is not data:
        bound.arguments.pop("schema", None)
    if uri.startswith("memory://") and version is None:
        # Nobody else sees the memory of the peer, and a folder does as well.
        _folders.append(tempfile.TemporaryDirectory(prefix="shadow-memory-"))
        uri = bound.arguments["uri"] = str(Path(_folders[-1].name) / "in-memory.lance")
    exists = (_root(uri)[0] / "_versions").is_dir()
    if mode == "append" and not exists:
        mode = "create"
    if mode == "overwrite" and not exists:
        mode = "create"
    return Write(
        uri,
        version,
        lambda target: lo.write_dataset(
            ours(), target, mode=mode, **({"properties": properties} if properties else {}), **given
        ),
        args=dict(bound.arguments),
        checks={"same_layout": True},
    )


def delete(method: Callable[..., Any], dataset: Any, *args: Any, **kwargs: Any) -> Write:
    """Of `LanceDataset.delete`."""
    given = _given(method, (dataset, *args), kwargs)
    predicate = _where(given["predicate"])
    return Write(
        *_held(dataset),
        lambda target: lo.delete(target, predicate),
        lambda result: {"num_deleted_rows": result.rows_deleted},
    )


def update(method: Callable[..., Any], dataset: Any, *args: Any, **kwargs: Any) -> Write:
    """Of `LanceDataset.update`."""
    given = _given(method, (dataset, *args), kwargs)
    _only(given, "updates", "where")
    where = _where(given.get("where"))
    return Write(
        *_held(dataset),
        lambda target: lo.update(target, given["updates"], where),
        lambda result: {"num_rows_updated": result.rows_updated},
        {"ordered": False},
    )


def merge_insert(method: Callable[..., Any], builder: Any, *args: Any, **kwargs: Any) -> Write:
    """Of `MergeInsertBuilder.execute`."""
    given = _given(method, (builder, *args), kwargs)
    dataset, on = builder._shadow_target
    options: dict[str, Any] = {}
    for name, told in builder._shadow_calls:
        value = next(iter(told.values()), None)
        if name == "when_matched_update_all":
            options["when_matched"] = "update_all" if value is None else "update_if"
            options.update({} if value is None else {"condition": value})
        elif name == "when_matched_delete":
            options["when_matched"] = "delete"
        elif name == "when_matched_fail":
            options["when_matched"] = "fail"
        elif name == "when_not_matched_insert_all":
            options["when_not_matched"] = "insert_all"
        elif name == "when_not_matched_by_source_delete":
            options["when_not_matched_by_source"] = "delete" if value is None else _where(value)
        elif name == "use_index":
            options["use_index"] = value
        elif name not in _IGNORED:
            raise NotOursError(f"merge_insert with {name}")
    data = given["data_obj"]
    if type(data).__name__ in ("LanceDataset", "LanceScanner"):
        raise NotOursError(f"data from a {type(data).__name__}")
    held = _held(dataset)
    theirs, ours = _twice(data, given.get("schema"))
    return Write(
        *held,
        lambda target: lo.merge_insert(target, ours(), on, **options),
        lambda result: {
            "num_inserted_rows": result.rows_inserted,
            "num_updated_rows": result.rows_updated,
            "num_deleted_rows": result.rows_deleted,
        },
        {"ordered": False},
        args={"self": builder, "data_obj": theirs},
    )


def add_columns(method: Callable[..., Any], dataset: Any, *args: Any, **kwargs: Any) -> Write:
    """Of `LanceDataset.add_columns`."""
    given = _given(method, (dataset, *args), kwargs)
    if kwargs.get("batch_size"):
        given["batch_size"] = kwargs["batch_size"]
    _only(given, "transforms", "read_columns", "reader_schema", "batch_size")
    transforms, schema = given["transforms"], given.get("reader_schema")
    bound = dict(inspect.signature(method).bind(dataset, *args, **kwargs).arguments)
    more = {name: given[name] for name in ("read_columns", "batch_size") if given.get(name)}
    held = _held(dataset)
    ours: Callable[[], Any] = lambda: transforms  # noqa: E731 - replaced below
    if isinstance(transforms, BatchUDF):
        if transforms.cache is not None:
            raise NotOursError("a function with checkpoints")
        udf = lo.BatchUDF(transforms.func, transforms.output_schema, **more)
        ours, more = (lambda: udf), {}
    elif not callable(transforms) and not isinstance(transforms, Mapping | pa.Schema | pa.Field | list):
        bound["transforms"], ours = _twice(transforms, schema)
        bound.pop("reader_schema", None)
    return Write(*held, lambda target: lo.add_columns(target, ours(), **more), args=bound)


def merge(method: Callable[..., Any], dataset: Any, *args: Any, **kwargs: Any) -> Write:
    """Of `LanceDataset.merge`."""
    given = _given(method, (dataset, *args), kwargs)
    held = _held(dataset)
    theirs, ours = _twice(given["data_obj"], given.get("schema"))
    keys = given["left_on"], given.get("right_on")
    return Write(
        *held,
        lambda target: lo.merge(target, ours(), *keys),
        args={"self": dataset, "data_obj": theirs, "left_on": keys[0], "right_on": keys[1]},
    )


def alter_columns(method: Callable[..., Any], dataset: Any, *alterations: Any) -> Write:
    """Of `LanceDataset.alter_columns`."""
    del method
    return Write(*_held(dataset), lambda target: lo.alter_columns(target, *alterations))


def drop_columns(method: Callable[..., Any], dataset: Any, columns: Any) -> Write:
    """Of `LanceDataset.drop_columns`."""
    del method
    return Write(*_held(dataset), lambda target: lo.drop_columns(target, columns))


def truncate(method: Callable[..., Any], dataset: Any) -> Write:
    """Of `LanceDataset.truncate_table`."""
    del method
    return Write(*_held(dataset), lo.truncate)


def restore(method: Callable[..., Any], dataset: Any) -> Write:
    """Of `LanceDataset.restore`."""
    del method
    uri, version = _held(dataset)
    return Write(uri, version, lambda target: lo.restore(target.latest(), version))


def compact_files(method: Callable[..., Any], optimizer: Any, **kwargs: Any) -> Write:
    """Of `DatasetOptimizer.compact_files`."""
    given = _given(method, (optimizer,), kwargs)
    given.pop("excluded_fragment_ids", None)
    if "excluded_fragment_ids" in kwargs:
        given["exclude_fragments"] = frozenset(kwargs["excluded_fragment_ids"] or ())
    return Write(
        *_held(optimizer._dataset), lambda target: lo.compact(target, **given), checks={"same_version": False}
    )


def optimize_indices(method: Callable[..., Any], optimizer: Any, **kwargs: Any) -> Write:
    """Of `DatasetOptimizer.optimize_indices`."""
    del method
    given = {name: value for name, value in kwargs.items() if name not in _IGNORED}
    return Write(
        *_held(optimizer._dataset),
        lambda target: lo.optimize_indices(target, **given),
        checks={"same_version": False},
    )


def create_scalar_index(method: Callable[..., Any], dataset: Any, *args: Any, **kwargs: Any) -> Write:
    """Of `LanceDataset.create_scalar_index`."""
    given = _given(method, (dataset, *args), kwargs)
    return _create_index(dataset, given, replace=True)


def create_index(method: Callable[..., Any], dataset: Any, *args: Any, **kwargs: Any) -> Write:
    """Of `LanceDataset.create_index`."""
    given = _given(method, (dataset, *args), kwargs)
    given.pop("filter_nan", None)
    return _create_index(dataset, given, replace=False)


def _create_index(dataset: Any, given: dict[str, Any], *, replace: bool) -> Write:
    column, kind = given.pop("column"), given.pop("index_type")
    if isinstance(column, list) and len(column) == 1:
        column = column[0]
    if not isinstance(kind, str):
        given = {**given, **kind.parameters}
        kind = kind.index_type
    for name in (
        "fragment_ids",
        "index_uuid",
        "ivf_centroids",
        "pq_codebook",
        "ivf_centroids_file",
        "precomputed_partition_dataset",
        "streaming_sample_rate",
        "streaming_coreset_rate",
        "streaming_refine_passes",
        "skip_transpose",
        "one_pass_ivfpq",
    ):
        if given.get(name) is not None:
            raise NotOursError(f"an index with {name}")
    named = {name: given.pop(name) for name in ("name", "train") if name in given}
    if "document_granularity" in given:
        given["document_granularity"] = given["document_granularity"].value
    again = given.pop("replace", replace)
    kind = {"FTS": "INVERTED"}.get(kind.upper(), kind)

    def apply(target: lo.Dataset) -> Any:
        return lo.create_index(target, column, kind, replace=again, parameters=given or None, **named)

    return Write(*_held(dataset), apply, checks={"same_version": False})


def drop_index(method: Callable[..., Any], dataset: Any, name: str) -> Write:
    """Of `LanceDataset.drop_index`."""
    del method
    return Write(*_held(dataset), lambda target: lo.drop_index(target, name))


def create_branch(method: Callable[..., Any], dataset: Any, *args: Any, **kwargs: Any) -> Write:
    """Of `LanceDataset.create_branch`."""
    given = _given(method, (dataset, *args), kwargs)
    name, reference = given["branch"], given.get("reference")
    return Write(*_held(dataset), lambda target: lo.create_branch(target, name, reference))


def delete_branch(method: Callable[..., Any], branches: Any, branch: str) -> Write:
    """Of `Branches.delete`."""
    del method
    return Write(*_inner(branches), lambda target: lo.delete_branch(target, branch))


def _inner(holder: Any) -> tuple[str, int]:
    return location(holder._ds), int(holder._ds.version())


def create_tag(method: Callable[..., Any], tags: Any, tag: str, reference: Any = None) -> Write:
    """Of `Tags.create`."""
    del method
    uri, version = _inner(tags)
    return Write(uri, version, lambda target: lo.create_tag(_referred(target, reference), tag))


def move_tag(method: Callable[..., Any], tags: Any, tag: str, reference: Any = None) -> Write:
    """Of `Tags.update`."""
    del method
    uri, version = _inner(tags)
    return Write(uri, version, lambda target: lo.move_tag(_referred(target, reference), tag))


def _referred(target: lo.Dataset, reference: Any) -> lo.Dataset:
    if reference is None or reference == (None, None):
        return lo.dataset(target.root)
    return target.checkout_version(reference)


def delete_tag(method: Callable[..., Any], tags: Any, tag: str) -> Write:
    """Of `Tags.delete`."""
    del method
    return Write(*_inner(tags), lambda target: lo.delete_tag(target, tag))


def cleanup(method: Callable[..., Any], dataset: Any, *args: Any, **kwargs: Any) -> Write:
    """Of `LanceDataset.cleanup_old_versions`."""
    given = _given(method, (dataset, *args), kwargs)
    _only(given, "older_than", "retain_versions", "delete_unverified")
    return Write(
        *_held(dataset),
        lambda target: lo.cleanup(target, **given),
        lambda result: {"old_versions": result.versions_removed},
    )


WRITES: dict[str, Callable[..., Write]] = {
    "LanceDataset.delete": delete,
    "LanceDataset.update": update,
    "LanceDataset.add_columns": add_columns,
    "LanceDataset.merge": merge,
    "LanceDataset.alter_columns": alter_columns,
    "LanceDataset.drop_columns": drop_columns,
    "LanceDataset.truncate_table": truncate,
    "LanceDataset.restore": restore,
    "LanceDataset.create_scalar_index": create_scalar_index,
    "LanceDataset.create_index": create_index,
    "LanceDataset.drop_index": drop_index,
    "LanceDataset.create_branch": create_branch,
    "LanceDataset.cleanup_old_versions": cleanup,
    "DatasetOptimizer.compact_files": compact_files,
    "DatasetOptimizer.optimize_indices": optimize_indices,
    "Tags.create": create_tag,
    "Tags.update": move_tag,
    "Tags.delete": delete_tag,
    "Branches.delete": delete_branch,
    "MergeInsertBuilder.execute": merge_insert,
}


def keep_clauses(
    replace: Callable[[Any, str, Callable[[Any], Any]], None], dataset: Any, builder: Any
) -> None:
    """Let builders of merges remember what they were told.

    Args:
        replace: Replaces a method of a class by what a function makes of it.
        dataset: The peer's class of datasets.
        builder: Its class of builders.
    """

    def starting(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def start(self: Any, on: Any = None) -> Any:
            made = method(self, on)
            made._shadow_target, made._shadow_calls = (self, on), []
            return made

        return start

    def noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def note(self: Any, *args: Any, **kwargs: Any) -> Any:
            answer = method(self, *args, **kwargs)
            told = dict(enumerate(args)) | kwargs
            getattr(self, "_shadow_calls", []).append((name, told))
            return answer

        return note

    replace(dataset, "merge_insert", starting)
    for name in list(vars(builder)):
        if name.startswith("when_") or name in (
            "use_index",
            "data_storage_version",
            "target_bases",
            "target_all_bases",
            "mark_sstables_as_compacted",
            "write_mode",
        ):
            replace(builder, name, functools.partial(noting, name))
