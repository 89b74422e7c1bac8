"""Base paths: locations of the files of a dataset, in its own root or in a declared base.

Shallow clones and branches refer to the files of their source through bases. Paths come from untrusted
metadata, so each is checked before any I/O (architecture, invariant 8).
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from lance_ops.errors import CorruptManifestError, InvalidArgumentError, PathEscapeError
from lance_ops.storage import Store, open_store, validate_relative_path
from lance_ops.storage.options import separate_manifest_store
from lance_ops.storage.paths import is_address, plain_uri
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import DeletionFile, ExternalFile
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import BasePath

DATA_DIRECTORY = "data"
_BRANCHES = "tree"
_ONE_SLASH = re.compile("file:/(?!/)")


class Bases:
    """The root of a dataset and its other bases, whose stores are opened on demand.

    Args:
        root: Store of the dataset.
        base_paths: Bases of the manifest.
        storage_options: For opening the stores of other bases.
    """

    def __init__(
        self,
        root: Store,
        base_paths: Sequence[BasePath] = (),
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self._bases = {base.id: base for base in base_paths}
        self._options = dict(storage_options or {})
        self._stores: dict[int, Store] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return (Bases, (self.root, tuple(self._bases.values()), self._options))

    def base(self, base_id: int | None) -> BasePath | None:
        """Return the declared base; None for the root of the dataset.

        Raises:
            CorruptManifestError: The manifest declares no such base.
        """
        if base_id is None:
            return None
        if base_id not in self._bases:
            raise CorruptManifestError(
                f"a file refers to base {base_id}, which the manifest does not declare",
                path=self.root.uri,
                field="base_id",
            )
        return self._bases[base_id]

    @property
    def uris(self) -> dict[int, str]:
        """Return the absolute URI of each base that has one."""
        uris = {base.id: _absolute_uri(base.path) for base in self._bases.values()}
        return {key: uri for key, uri in uris.items() if "://" in uri}

    @property
    def blob_uris(self) -> dict[int, str]:
        """Return the absolute URI of each base that new blobs may be stored relative to."""
        # Base number 0 in a descriptor means no base, and other writers do not accept dataset roots.
        return {key: uri for key, uri in self.uris.items() if key and not self._bases[key].is_dataset_root}

    def store_for(self, base_id: int | None) -> Store:
        """Return the store of a base.

        Raises:
            CorruptManifestError: The manifest declares no such base.
            PathEscapeError: The path of the base is not absolute.
        """
        base = self.base(base_id)
        if base is None:
            return self.root
        if base.id not in self._stores:
            # Only its data are read, whatever decides the versions of the dataset.
            options = separate_manifest_store(self._options)[1]
            self._stores[base.id] = open_store(plain_uri(_absolute(base, self.root.uri)), options)
        return self._stores[base.id]

    def data_path(self, file: DataFile) -> tuple[Store, str]:
        """Return store and path of a data file.

        Raises:
            PathEscapeError: The path leaves its base.
        """
        return self._resolve(file.base_id, DATA_DIRECTORY, file.path)

    def data_folder(self, base_id: int | None) -> str:
        """Return the data folder of a base, within its store; "" where files are in the base itself."""
        base = self.base(base_id)
        return DATA_DIRECTORY if base is None or base.is_dataset_root else ""

    def deletion_path(self, fragment_id: int, deletion_file: DeletionFile) -> tuple[Store, str]:
        """Return store and path of a deletion file."""
        folder, _, name = deletion_file.path(fragment_id).partition("/")
        return self._resolve(deletion_file.base_id, folder, name)

    def index_directory(self, index: IndexMetadata) -> tuple[Store, str]:
        """Return store and directory of the files of an index segment."""
        folder, _, name = index.directory.partition("/")
        return self._resolve(index.base_id, folder, name)

    def external_path(self, file: ExternalFile) -> tuple[Store, str]:
        """Return store and path of an external file.

        Raises:
            PathEscapeError: The path leaves the root.
        """
        return self.root, validate_relative_path(file.path)

    def _resolve(self, base_id: int | None, folder: str, name: str) -> tuple[Store, str]:
        validate_relative_path(name)
        base = self.base(base_id)
        # A base that is not a dataset root holds the files directly.
        path = name if base is not None and not base.is_dataset_root else f"{folder}/{name}"
        return self.store_for(base_id), path


def _absolute(base: BasePath, root: str) -> str:
    if not base.path.startswith("/") and not is_address(base.path):
        if (main := _main_root(base, root)) is not None:
            return main
        raise PathEscapeError(
            f"base {base.id} has path {base.path!r}, which is not an absolute path or URI",
            path=root,
            field="base_paths",
        )
    return base.path


def _main_root(base: BasePath, root: str) -> str | None:
    """Return the main root of a branch if a base with a relative path refers to it.

    pylance records the path as its caller gave it, which is valid in one working directory only.

    Args:
        base: Of the manifest of a branch.
        root: URI of the branch.
    """
    wanted = [part for part in base.path.split("/") if part not in ("", ".")]
    if not base.is_dataset_root or not wanted or ".." in wanted:
        return None
    parts = root.rstrip("/").split("/")
    for place in range(len(wanted), len(parts)):
        if parts[place] == _BRANCHES and parts[place - len(wanted) : place] == wanted:
            return "/".join(parts[:place])
    return None


def _absolute_uri(path: str) -> str:
    path = plain_uri(path)
    if path.startswith("/"):
        return f"file://{quote(path)}"
    return path.replace("file:/", "file:///", 1) if _ONE_SLASH.match(path) else path


def branch_root(uri: str, branch: str | None) -> str:
    """Return the URI of the dataset of a branch, given the URI of the branch.

    Raises:
        InvalidArgumentError: The URI is not the location of that branch.
    """
    if branch is None:
        return uri
    suffix = f"/tree/{branch}"
    if not uri.endswith(suffix):
        raise InvalidArgumentError(
            f"the manifest belongs to branch {branch!r}, which must be stored at tree/{branch} of its "
            "dataset",
            path=uri,
        )
    return uri.removesuffix(suffix)
