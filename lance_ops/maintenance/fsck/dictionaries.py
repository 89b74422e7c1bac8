"""Fsck of narrow dictionaries: files with more values than the index type of a column allows.

Compactions by pylance write them, up to 14.0.2 at least, if fragments have different categories: no library
can read the column of such a file. Source: files written by pylance.
"""

from collections.abc import Iterator

import pyarrow as pa

from lance_ops.errors import LanceOpsError, UnsupportedError
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.table.dataset import Dataset
from lance_ops.table.narrow_dictionaries import NarrowDictionaries, narrow_columns
from lance_ops.table.scan.fragment_reader import FragmentReader

_ROWS = 1 << 17
_HINT = "restore or check out the version before the compaction that wrote it"


def check_dictionaries(dataset: Dataset) -> Iterator[Finding]:
    """Check that every narrow dictionary is readable, without more values than its index type allows."""
    for name in narrow_columns(prepare_schema(dataset.lance_schema).arrow):
        schema = dataset.lance_schema.select([name])
        arrow = prepare_schema(schema).arrow
        for fragment in dataset.fragments:
            known = NarrowDictionaries(arrow, dataset.manifest.storage_version)
            what = f"column {name!r} of fragment {fragment.id}"
            try:
                for batch in FragmentReader(dataset, fragment).iter_batches(schema, batch_rows=_ROWS):
                    batch.validate(full=True)
                    if not known.add(batch):
                        message = f"{what} has more values than its index type allows; {_HINT}"
                        yield Finding("rows_match", Severity.ERROR, message)
                        break
            except (LanceOpsError, pa.ArrowInvalid) as error:
                severity = Severity.WARNING if isinstance(error, UnsupportedError) else Severity.ERROR
                said = error.message if isinstance(error, LanceOpsError) else str(error)
                path = error.path if isinstance(error, LanceOpsError) else None
                yield Finding("rows_match", severity, f"{what} cannot be read: {said}; {_HINT}", path)
