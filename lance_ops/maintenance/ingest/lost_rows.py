"""Lost rows: whether later commits deleted rows that a commit added.

Exactly once means that a job is not repeated; it does not mean that its rows still exist. Callers that rely
on the rows of a finished job check here.
"""

from dataclasses import dataclass

from lance_ops.errors import NotFoundError
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import by_id
from lance_ops.table.transaction.operations import Delete, Operation, Overwrite, Restore, Rewrite, Update


@dataclass(frozen=True, slots=True)
class Losses:
    """Commits that deleted rows.

    Attributes:
        commits: One line each: those that deleted rows of the fragments with the rows in question. After a
            compaction a fragment also has other rows; then these may have been deleted.
        unknown: A version in between was removed, so there may be more.
    """

    commits: tuple[str, ...] = ()
    unknown: bool = False


def losses_since(head: Dataset, version: int) -> Losses:
    """Return whether rows added by a version were deleted afterwards.

    Args:
        head: The newest version; `version` is in its lineage.
        version: The version that added rows.
    """
    try:
        added = head.checkout_version(version)
        files = added.read_transaction().operation.files()
    except NotFoundError:
        return Losses(unknown=True)
    bearers = {part.id: part for part in added.fragments if _paths(part) & files}
    now = by_id(head.fragments)
    if all(_is_whole(part, now.get(number)) for number, part in bearers.items()):
        return Losses()
    return _follow(head, version, frozenset(bearers))


def _paths(fragment: Fragment) -> frozenset[str]:
    return frozenset(f"data/{file.path}" for file in fragment.files)


def _is_whole(before: Fragment, now: Fragment | None) -> bool:
    return now is not None and now.deletion_file == before.deletion_file


def _follow(head: Dataset, version: int, bearers: frozenset[int]) -> Losses:
    """Follow the rows through the commits after a version."""
    found: dict[int, str] = {}
    bearers_at = {version: bearers}
    for number in range(version + 1, head.version + 1):
        try:
            operation = head.checkout_version(number).read_transaction().operation
        except NotFoundError:
            return Losses(tuple(found.values()), unknown=True)
        if isinstance(operation, Restore):
            bearers = bearers_at.get(operation.version, bearers)
            found = {at: line for at, line in found.items() if at <= operation.version}
        elif isinstance(operation, Overwrite) or _takes(operation, bearers):
            found[number] = f"version {number}: {operation.describe()}"
        bearers = bearers_at[number] = _moved(operation, bearers)
    return Losses(tuple(found.values()))


def _takes(operation: Operation, bearers: frozenset[int]) -> bool:
    return isinstance(operation, Delete | Update) and not bearers.isdisjoint(operation.changed_fragments())


def _moved(operation: Operation, bearers: frozenset[int]) -> frozenset[int]:
    """Return the fragments with the rows after an operation."""
    if not isinstance(operation, Rewrite):
        return bearers
    for group in operation.groups:
        old = frozenset(part.id for part in group.old_fragments)
        if not bearers.isdisjoint(old):
            bearers = (bearers - old).union(part.id for part in group.new_fragments)
    return bearers
