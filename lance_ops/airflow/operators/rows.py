"""Operators that change rows: append, replace, merge, delete."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

import lance_ops as lo
from lance_ops.airflow.operators.base import LanceOperator
from lance_ops.airflow.operators.tries import work_of
from lance_ops.errors import InvalidArgumentError, RowsLostError
from lance_ops.maintenance.ingest.lost_rows import losses_since
from lance_ops.maintenance.sources.open import described_input

_ON_CLEAR = ("skip", "append")


class LanceRowsOperator(LanceOperator):
    """Base of the operators that write rows, from files or from a function.

    Args:
        data: Paths, folders or globs of files, or a Lance table; see `lance_ops.read_files`.
        source: Or a function of Airflow's context that returns data for `write_dataset`.
        query: Or an SQL query, see `lance_ops.read_query`.
        database: Database of the query.
        read_options: Options of the files, as of `lance_ops.read_files`, such as {"delimiter": ";"}.
        **kwargs: See `LanceOperator`.
    """

    template_fields: Sequence[str] = ("dataset", "data", "query", "database", "read_options")

    def __init__(
        self,
        *,
        data: str | Sequence[str] | None = None,
        source: Callable[[Any], Any] | None = None,
        query: str | None = None,
        database: str | None = None,
        read_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if sum(given is not None for given in (data, source, query)) != 1:
            raise InvalidArgumentError("rows require one of `data`, `source` and `query`", field="data")
        self.data = data
        self.source = source
        self.query = query
        self.database = database
        self.read_options = read_options

    def given(self, context: Any) -> Any:
        """Return the rows."""
        if self.source is not None:
            return self.source(context)
        paths = [self.data] if isinstance(self.data, str) else list(self.data or ())
        return described_input(paths, self.read_options, self.query, self.database)


class LanceAppendOperator(LanceRowsOperator):
    """Append files, or the rows of a function.

    Other operators repeat their work after their task is cleared. Appended rows would be duplicated: a
    cleared task whose rows are in the dataset is skipped, and one whose rows were deleted since fails.
    `LanceReplaceOperator` loads again, and so does the mode "overwrite".

    Args:
        mode: "append", "overwrite", "create".
        on_clear: "skip", or "append" to append again after the task is cleared, in any case.
        **kwargs: See `LanceRowsOperator`.
    """

    def __init__(self, *, mode: Any = "append", on_clear: str = "skip", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if on_clear not in _ON_CLEAR:
            raise InvalidArgumentError(
                f"on_clear must be one of {', '.join(_ON_CLEAR)}, got {on_clear!r}", field="on_clear"
            )
        self.mode = mode
        self.on_clear = on_clear

    def job_key(self, ti: Any) -> str:
        """Return the job key of `LanceOperator`; unchanged after a clear that would duplicate rows."""
        adds = self.mode != "overwrite" and self.on_clear == "skip"
        return work_of(ti) if adds else super().job_key(ti)

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        return lo.write_dataset(self.given(context), uri, mode=self.mode, **common).result

    def repeat(self, uri: str, done: Any, common: dict[str, Any], context: Any) -> Any:
        """Fail or skip instead of duplicating rows: see the class."""
        if self.mode == "overwrite":
            return super().repeat(uri, done, common, context)
        if self.on_clear == "append":
            raise AirflowFailException(
                f"the rows of this task were appended by version {done.version}. Its `retries` was lowered "
                "or its run cleared during a retry, so it is unknown whether to append them again: if so, "
                "clear the task again"
            )
        head = lo.dataset(done.uri, storage_options=common["storage_options"])
        losses = losses_since(head.snapshot(), done.version)
        if losses.commits:
            raise RowsLostError(
                f"the rows of this task were appended by version {done.version}, and some were or may have "
                f"been deleted since, by {'; '.join(losses.commits)}",
                path=done.uri,
                hint="use LanceReplaceOperator, or on_clear='append'",
            )
        raise AirflowSkipException(
            f"the rows of this task were appended by version {done.version}, and nothing was written; "
            "LanceReplaceOperator loads again, and on_clear='append' appends them again"
        )


class LanceReplaceOperator(LanceRowsOperator):
    """Replace the rows that match a predicate, in one commit; e.g. those of a day.

    Args:
        predicate: SQL.
        **kwargs: See `LanceRowsOperator`.
    """

    template_fields: Sequence[str] = (*LanceRowsOperator.template_fields, "predicate")

    def __init__(self, *, predicate: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.predicate = predicate

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        return lo.replace_where(uri, self.given(context), self.predicate, **common)


class LanceMergeOperator(LanceRowsOperator):
    """Update and insert rows by a key.

    Args:
        on: Columns of the key; the primary key of the dataset when None.
        clauses: More arguments of `lance_ops.merge_insert`; by default, matched rows are updated and others
            inserted.
        **kwargs: See `LanceRowsOperator`.
    """

    def __init__(
        self, *, on: Sequence[str] | None = None, clauses: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.on = on
        self.clauses = clauses

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        return lo.merge_insert(uri, self.given(context), self.on, **(self.clauses or {}), **common)


class LanceDeleteOperator(LanceOperator):
    """Delete the rows that match a predicate.

    Args:
        predicate: SQL.
        dry_run: Count the rows without deleting them.
        **kwargs: See `LanceOperator`.
    """

    template_fields: Sequence[str] = ("dataset", "predicate")

    def __init__(self, *, predicate: str, dry_run: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.predicate = predicate
        self.plan_only = dry_run

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        return lo.delete(uri, self.predicate, dry_run=self.plan_only, **common)
