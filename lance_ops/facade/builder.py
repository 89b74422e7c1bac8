"""Merge insert builder: clauses of an upsert, given one after the other as in pylance."""

from typing import TYPE_CHECKING, Any

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.facade.delegates import MovingHandle
from lance_ops.facade.inputs import with_schema

if TYPE_CHECKING:
    from datetime import timedelta

    import pyarrow as pa

    from lance_ops.maintenance.merge_insert.operation import MergeArguments


_REFUSED = ("data_storage_version", "execute_uncommitted", "target_all_bases", "target_bases", "write_mode")


class MergeInsertBuilder:
    """Merge of rows into a dataset by a key; made by `Dataset.merge_insert`.

    Args:
        dataset: Moves to the version that `execute` commits.
        on: Columns of the key; the primary key of the schema when None.

    Examples:
        >>> events = lo.dataset("events.lance")
        >>> new = pa.table({"id": [9, 10], "kind": ["c", "c"]})
        >>> merge = events.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        >>> merge.execute(new)["num_inserted_rows"]
        1
    """

    def __init__(self, dataset: MovingHandle, on: str | list[str] | None = None) -> None:
        self._dataset = dataset
        self._on = on
        self._arguments: MergeArguments = {}

    def when_matched_update_all(self, condition: str | None = None) -> "MergeInsertBuilder":
        """Give rows with a known key the values of the source, where a condition is true if given."""
        self._arguments["when_matched"] = "update_all" if condition is None else "update_if"
        self._arguments["condition"] = condition
        return self

    def when_matched_delete(self) -> "MergeInsertBuilder":
        """Delete rows whose key the source has."""
        self._arguments["when_matched"] = "delete"
        return self

    def when_matched_fail(self) -> "MergeInsertBuilder":
        """Fail when the source has a known key."""
        self._arguments["when_matched"] = "fail"
        return self

    def when_not_matched_insert_all(self) -> "MergeInsertBuilder":
        """Insert rows of the source with a new key."""
        self._arguments["when_not_matched"] = "insert_all"
        return self

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> "MergeInsertBuilder":
        """Delete rows whose key the source lacks, where an SQL condition is true if there is one."""
        self._arguments["when_not_matched_by_source"] = "delete" if expr is None else expr
        return self

    def conflict_retries(self, max_retries: int) -> "MergeInsertBuilder":
        """Set the maximum number of new plans after conflicts with other writers."""
        self._arguments["max_replans"] = max_retries
        return self

    def retry_timeout(self, timeout: "timedelta") -> "MergeInsertBuilder":  # noqa: ARG002 - pylance's method
        """No effect: `conflict_retries` bounds the attempts."""
        return self

    def use_index(self, use_index: bool) -> "MergeInsertBuilder":
        """Allow an index on the key to find the matches."""
        self._arguments["use_index"] = use_index
        return self

    def execute(self, data_obj: Any, *, schema: "pa.Schema | None" = None) -> Any:
        """Merge rows in one commit; see `lance_ops.merge_insert` for the data and the errors.

        Returns:
            The `MergeResult`; it has its numbers by pylance's names, too, such as `num_updated_rows`.
        """
        from lance_ops.maintenance.merge_insert.operation import merge_insert

        self._check()
        source = with_schema(data_obj, schema)
        result = merge_insert(self._dataset.snapshot(), source, self._on, **self._arguments)
        self._dataset.move_to(result)
        return result

    def explain_plan(self, data_obj: Any) -> str:
        """Return the plan of a merge of these rows; nothing is written."""
        from lance_ops.maintenance.merge_insert.operation import merge_insert

        self._check()
        return str(
            merge_insert(self._dataset.snapshot(), data_obj, self._on, dry_run=True, **self._arguments)
        )

    def _check(self) -> None:
        # Without any clause the function upserts, which was not asked for here.
        if not any(name.startswith("when_") for name in self._arguments):
            raise InvalidArgumentError(
                "the merge has no clause",
                field="when_matched",
                hint="call when_matched_update_all() or another",
            )

    def __getattr__(self, name: str) -> Any:
        if name in _REFUSED:
            raise UnsupportedError(
                f"the merge has no {name}", field=name, hint="see help(lance_ops.merge_insert)"
            )
        raise AttributeError(name)
