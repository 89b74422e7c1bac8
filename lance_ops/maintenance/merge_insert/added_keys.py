"""Added keys: whether rows added by concurrent commits have a key that a merge adds as well.

Their transactions name the files of those rows. Only the key is read, unless the key filters of both sides
are disjoint. So a merge does not conflict with rows with other keys, and is joined again only if a row was
added that it would have updated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_ops.errors import LanceOpsError, NotFoundError, StorageError
from lance_ops.maintenance.live_rows import rows_per_batch
from lance_ops.maintenance.merge_insert.search import key_columns
from lance_ops.table.join_keys import KeyIndex, Places, plain_keys
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_reader import FragmentReader
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.key_filter import KeyFilter
from lance_ops.table.transaction.operations import Append, Update
from lance_ops.table.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class AddedKeys:
    """Keys of rows that a merge adds; checks each commit since its read version.

    Attributes:
        snapshot: The read version.
        on: Key columns.
        adds: Returns whether the merge adds one of some keys (`plain_keys`).
        told: Key filter of the transaction; None without one.
    """

    snapshot: Snapshot
    on: tuple[str, ...]
    adds: Callable[[Sequence[pa.Array]], bool]
    told: KeyFilter | None

    def __call__(self, theirs: Transaction) -> str | None:
        """Return why the merge must be joined again after another commit; None if not.

        Raises:
            StorageError: The store failed.
        """
        operation = theirs.operation
        if isinstance(operation, Append):
            return self._meet(operation.fragments)
        if not isinstance(operation, Update):
            return None
        of_key = {self.snapshot.lance_schema.field(name).id for name in self.on}
        if not of_key.isdisjoint(operation.fields_modified):
            return "the other commit changed keys in place"
        # Rows updated by their key keep it; other changes of a key have no filter.
        filters = (self.told, operation.inserted_keys)
        if filters[0] is not None and filters[1] is not None and not filters[0].meets(filters[1]):
            return None
        return self._meet(operation.new_fragments)

    def _meet(self, added: Sequence[Fragment]) -> str | None:
        if not added:
            return None
        try:
            met = self._have_key_of_ours(added)
        except NotFoundError as error:
            return f"the other commit added rows that no longer exist ({error.path})"
        except StorageError:
            raise
        except LanceOpsError as error:
            return f"the other commit added unreadable rows: {error}"
        return "the other commit added rows with a key that this merge adds, too" if met else None

    def _have_key_of_ours(self, added: Sequence[Fragment]) -> bool:
        schema = key_columns(self.snapshot.lance_schema, set(self.on))
        manifest = self.snapshot.manifest.replace(
            fragments=tuple(fragment.replace(deletion_file=None) for fragment in added),
            schema=schema,
            indices=(),
            transaction=None,
        )
        snapshot = Snapshot(self.snapshot.store, manifest, self.snapshot.storage_options)
        for fragment in snapshot.fragments:
            batches = FragmentReader(snapshot, fragment).iter_batches(
                schema, batch_rows=rows_per_batch([fragment])
            )
            for batch in batches:
                if self.adds([plain_keys(batch.column(name)) for name in self.on]):
                    return True
        return False


def adds_of(keys: KeyIndex, inserted: Places) -> Callable[[Sequence[pa.Array]], bool]:
    """Return whether one of some keys belongs to the inserted rows of a source; see `AddedKeys.adds`.

    Args:
        keys: The keys of the source.
        inserted: The inserted rows of it.
    """
    mine = np.zeros(int(keys.rows.max(initial=-1)) + 1, np.bool_)
    mine[inserted[inserted < len(mine)]] = True

    def adds(columns: Sequence[pa.Array]) -> bool:
        found = keys.find(columns)
        return bool(mine[found[found >= 0]].any())

    return adds
