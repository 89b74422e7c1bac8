"""Write options of `write_dataset` and related functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.table.commit.committer import Committer
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE

Mode = Literal["create", "append", "overwrite", "replace_where"]

WRITE_REPLANS = 10
"""Default number of new plans of a write after conflicts."""

KEEPS_SCHEMA = frozenset({"append", "replace_where"})
"""Modes that keep the schema of the dataset."""


class IngestOptions(RunOptions, total=False):
    """Options of a write, besides `RunOptions`; keyword arguments of all writing functions.

    Attributes:
        data_storage_version: Storage version of the data files; default 2.2 for a new dataset, else that of
            the dataset. An append of another version from 2.0 on keeps that of the dataset and sets a flag
            for mixed versions, which older libraries do not open.
        max_rows_per_file: Maximum rows per fragment.
        max_bytes_per_file: Maximum bytes per fragment.
        enable_stable_row_ids: Rows of a new dataset keep their ids when they move.
        fill_missing: Fill missing nullable columns with nulls instead of reporting a mismatch.
    """

    data_storage_version: str | None
    max_rows_per_file: int
    max_bytes_per_file: int
    enable_stable_row_ids: bool
    fill_missing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Write options of `write_dataset`; see there."""

    mode: Mode = "append"
    predicate: str | Callable[[pa.Schema], str] | None = None
    allow_empty: bool | None = None
    data_storage_version: str | None = None
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    enable_stable_row_ids: bool = False
    fill_missing: bool = False
    job_key: str | None = None
    properties: Mapping[str, str] | None = None
    committer: Committer | None = None
    storage_options: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls,
        options: IngestOptions,
        *,
        mode: Mode,
        predicate: str | Callable[[pa.Schema], str] | None = None,
        allow_empty: bool | None = None,
    ) -> "WriteOptions":
        """Return the given write options, without run options.

        Raises:
            InvalidArgumentError: One makes no sense.
        """
        kept = {name: value for name, value in options.items() if name not in _ONLY_RUN}
        return cls(mode=mode, predicate=predicate, allow_empty=allow_empty, **kept)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise InvalidArgumentError(
                f"unknown mode {self.mode!r}", field="mode", hint=f"one of {', '.join(get_args(Mode))}"
            )
        if (self.mode == "replace_where") != (self.predicate is not None):
            raise InvalidArgumentError(
                "mode 'replace_where' requires a predicate, and other modes exclude it",
                field="predicate",
                hint="the predicate selects the rows to replace",
            )
        if self.predicate is not None and not callable(self.predicate):
            check_type(self.predicate, str, "an SQL condition", field="predicate")
        if self.data_storage_version is not None:
            check_type(
                self.data_storage_version, str, "the name of a storage version", field="data_storage_version"
            )
        for name in ("max_rows_per_file", "max_bytes_per_file"):
            check_type(getattr(self, name), Integral, "a whole number", field=name)
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"must be at least 1, got {getattr(self, name)}", field=name)


_ONLY_RUN = frozenset({"runner", "max_replans", "progress"})
