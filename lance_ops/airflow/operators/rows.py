"""Operators that change rows: append, replace, merge, delete."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

import lance_ops as lo
from lance_ops.airflow.operators.base import LanceOperator
from lance_ops.airflow.operators.tries import work_of
from lance_ops.errors import InvalidArgumentError, RowsLostError
from lance_ops.maintenance.ingest.lost_rows import losses_since

_ON_CLEAR = ("skip", "append")


class LanceRowsOperator(LanceOperator):
    """Base of the operators that take rows, as files or from a function.

    Args:
        data: Paths, folders or globs of Parquet, CSV, TSV or Arrow files.
        source: Or a function that is given Airflow's context and returns what `write_dataset` takes.
        **kwargs: See `LanceOperator`.
    """

    template_fields: Sequence[str] = ("dataset", "data")

    def __init__(
        self,
        *,
        data: str | Sequence[str] | None = None,
        source: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (data is None) is (source is None):
            raise InvalidArgumentError("rows come from `data` or from `source`", field="data")
        self.data = data
        self.source = source

    def given(self, context: Any) -> Any:
        """The rows."""
        if self.source is not None:
            return self.source(context)
        return [self.data] if isinstance(self.data, str) else list(self.data or ())


class LanceAppendOperator(LanceRowsOperator):
    """Append files, or what a function returns.

    Other operators do their work again when their task is cleared. Rows that were appended would be there
    twice: a cleared task whose rows are in the dataset is skipped, and one whose rows were deleted since
    fails. `LanceReplaceOperator` loads again, and so does the mode "overwrite".

    Args:
        mode: "append", "overwrite", "create".
        on_clear: "skip", or "append" to append once more when the task is cleared, whatever is there.
        **kwargs: See `LanceRowsOperator`.
    """

    def __init__(self, *, mode: Any = "append", on_clear: str = "skip", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if on_clear not in _ON_CLEAR:
            raise InvalidArgumentError(f"{on_clear!r} is none of {', '.join(_ON_CLEAR)}", field="on_clear")
        self.mode = mode
        self.on_clear = on_clear

    def job_key(self, ti: Any) -> str:
        """See `LanceOperator.job_key`; the same after a clear where rows would be there twice."""
        adds = self.mode != "overwrite" and self.on_clear == "skip"
        return work_of(ti) if adds else super().job_key(ti)

    def operate(self, uri: str, common: dict[str, Any], context: Any) -> Any:
        """See `LanceOperator.operate`."""
        return lo.write_dataset(self.given(context), uri, mode=self.mode, **common)

    def repeat(self, uri: str, done: Any, common: dict[str, Any], context: Any) -> Any:
        """Refuse to add rows twice: see the class."""
        if self.mode == "overwrite":
            return super().repeat(uri, done, common, context)
        if self.on_clear == "append":
            raise AirflowFailException(
                f"the rows of this task are there since version {done.version}. Its `retries` was lowered or "
                "its run cleared, while it was tried again, so that nobody can say whether they are to be "
                "appended once more: if so, clear the task again"
            )
        head = lo.dataset(done.uri, storage_options=common["storage_options"])
        losses = losses_since(head, done.version)
        if losses.commits:
            raise RowsLostError(
                f"the rows of this task were appended by version {done.version}, and some were deleted "
                f"since, or may have been, by {'; '.join(losses.commits)}",
                path=done.uri,
                hint="load them with LanceReplaceOperator, or with on_clear='append'",
            )
        raise AirflowSkipException(
            f"the rows of this task are there since version {done.version}, and nothing was written; "
            "LanceReplaceOperator loads again, and on_clear='append' appends them once more"
        )


class LanceReplaceOperator(LanceRowsOperator):
    """Replace the rows that a predicate selects, in one commit; e.g. those of a day.

    Args:
        predicate: SQL.
        **kwargs: See `LanceRowsOperator`.
    """

    template_fields: Sequence[str] = ("dataset", "data", "predicate")

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
        clauses: More arguments of `lance_ops.merge_insert`; matched rows are updated and others inserted
            unless told otherwise.
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
    """Delete the rows that a predicate selects.

    Args:
        predicate: SQL.
        dry_run: Count them, and delete nothing.
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
