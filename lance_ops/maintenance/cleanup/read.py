"""Versions for a cleanup, read with few of them in memory at a time."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from lance_ops.errors import CorruptManifestError, FormatError, VersionNotFoundError
from lance_ops.maintenance.cleanup.head import refusal
from lance_ops.storage import Store
from lance_ops.storage.prefetch import prefetch, requests_at_once
from lance_ops.storage.retry import persistently
from lance_ops.table.commit.damaged_head import RESTORED_OVER
from lance_ops.table.manifest.file.summary import ManifestSummary, read_summary
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.transaction.transaction import decode_transaction


def read_summaries(
    store: Store, locations: Sequence[ManifestLocation], newest: int, written: Mapping[str, datetime]
) -> Iterator[tuple[ManifestLocation, ManifestSummary, bool]]:
    """Yield summaries of the existing versions, in the order of `locations`, newest first.

    A damaged version followed by a restore of an older one is given up: it has no files, and is yielded with
    True.

    Args:
        store: Root of the dataset.
        locations: The versions.
        newest: The newest of them.
        written: When each manifest was written, by the clock of the store.

    Raises:
        CleanupRefusedError: The newest version cannot be read.
        CorruptManifestError: Another one cannot be read.
        InconsistentStoreError: A manifest is listed but not found.
    """

    def read(location: ManifestLocation) -> ManifestSummary | FormatError | None:
        try:
            return persistently(lambda: read_summary(store, location))
        except VersionNotFoundError:
            # A fresh listing confirmed it: another cleanup was faster.
            return None
        except FormatError as error:
            return error

    tasks = (partial(read, location) for location in locations)
    above: ManifestSummary | None = None
    results = prefetch(tasks, requests_at_once(store))
    for location, result in zip(locations, results, strict=True):
        if result is None:
            continue
        if isinstance(result, FormatError):
            if location.version == newest:
                raise refusal(store, location, result.message, result) from result
            moment = written.get(location.path)
            if moment is None or not _is_given_up(store, location.version, above):
                raise CorruptManifestError(
                    result.message,
                    path=result.path,
                    field=result.field,
                    hint="its files are unknown; if nobody needs the version, remove this file manually",
                ) from result
            yield location, _without_files(location.version, moment), True
            above = None
        else:
            yield location, result, False
            above = result


def _is_given_up(store: Store, version: int, above: ManifestSummary | None) -> bool:
    """Return whether the version after this one is a restore made because this one is damaged."""
    if above is None or above.version != version + 1 or above.transaction is None:
        return False
    transaction = decode_transaction(above.transaction, path=f"{store.uri} (version {above.version})")
    return transaction.properties.get(RESTORED_OVER) == str(version)


def _without_files(version: int, moment: datetime) -> ManifestSummary:
    return ManifestSummary(
        version=version,
        timestamp=moment,
        transaction_file="",
        transaction=None,
        reader_flags=0,
        writer_flags=0,
        branch=None,
        fragments=(),
    )
