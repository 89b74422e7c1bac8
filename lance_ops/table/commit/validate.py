"""Validation: check a version before it is committed on. Pure.

Whether an operation fits a version is checked by the operation (`CommittedOperation.check`).
"""

from lance_ops.cache import IdentityCache
from lance_ops.errors import UnsupportedError
from lance_ops.file.schema.model import Schema
from lance_ops.file.versions import is_legacy
from lance_ops.table.manifest.fragments.totals import file_numbers
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY, staged_version

# Wide tables have thousands of fields, and each commit asks.
_coded: IdentityCache[[Schema], tuple[str, ...]] = IdentityCache(
    "dictionary columns",
    lambda schema: tuple([node.name for node in schema.walk() if node.logical_type.startswith("dict:")]),
    64,
)


def check_no_staged(staged: str | None, newest: int, uri: str) -> None:
    """Refuse to write beside a staged manifest of a later version: it may be the newest version by now.

    Args:
        staged: Its name, if there is one.
        newest: The newest listed version.
        uri: Of the dataset.

    Raises:
        UnsupportedError: There is one.
    """
    if staged is not None:
        path = f"{VERSIONS_DIRECTORY}/{staged}"
        raise UnsupportedError(
            f"a manifest of version {staged_version(staged)} is staged: a writer that keeps its "
            "versions in an external manifest store (DynamoDB) may have committed it, and version "
            f"{newest} may not be the newest",
            path=f"{uri}/{path}",
            hint="open the table once with pylance through s3+ddb://, which gives the version its final "
            "name; if no such writer exists any more, remove this file",
        )


def check_age(manifest: Manifest, *, path: str) -> None:
    """Refuse to write on top of legacy versions.

    Writers before 0.8.15 recorded wrong row counts and index coverages. Pylance corrects them when it
    commits, based on the writer version in the manifest: ours would hide the fault.

    Raises:
        UnsupportedError: The version was written before 0.8.15, keeps blobs in a dataset of their own, or has
            dictionary columns of storage version 0.1.
    """
    if manifest.may_miscount:
        raise UnsupportedError(
            "the row counts and index coverages of this version may be wrong: its writer is older than "
            "0.8.15",
            path=path,
            field="writer_version",
            hint="let pylance correct them with one commit, such as dataset.delete('false')",
        )
    if manifest.blob_dataset_version:
        raise UnsupportedError(
            "the dataset stores blobs in a separate dataset, a layout of old writers that cannot be modified",
            path=path,
            field="blob_dataset_version",
        )
    coded = _coded(manifest.schema)
    if coded and any(is_legacy(*numbers) for numbers in file_numbers(manifest.fragments)):
        # Manifests of 0.1 hold the dictionary values, and pylance reads them from there.
        raise UnsupportedError(
            "dictionary columns of storage version 0.1 cannot be carried into a new version",
            path=path,
            field=coded[0],
            hint="read the rows and write them into a new dataset",
        )
