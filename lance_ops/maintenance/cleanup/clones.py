"""Shallow clones of a dataset: the files that they use.

A dataset has no record of its clones: they must be named by the caller. Source: format, base paths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lance_ops.errors import DatasetNotFoundError, LanceOpsError, PathEscapeError
from lance_ops.maintenance.cleanup.marks import DELETIONS, INDICES, Marks
from lance_ops.maintenance.cleanup.objects import NamedObjects
from lance_ops.maintenance.cleanup.places import below, is_own_root
from lance_ops.storage import Store
from lance_ops.storage.retry import persistently
from lance_ops.table.history.branches import BRANCH_TREES
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.feature_flags import uses_tagged_reuse
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.listing import all_manifests
from lance_ops.table.manifest.model import BasePath, Manifest
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY

_CLONES_NOTE = (
    "shallow clones of this dataset cannot be found from here: their files are kept only if a tag keeps the "
    "version they were made from (as lance_ops sets it) or if the clone is listed in clones"
)
_BASES_NOTE = "; files in other base paths are kept, since other datasets may use them: {}"


@dataclass(frozen=True, slots=True)
class CloneMarks:
    """Files of a dataset that a clone of it uses.

    Attributes:
        uri: Root of the clone.
        marks: The files.
        problem: Why the objects of the clone's managed blobs are unknown; None if they are known.
        maps_unknown: Why row maps are kept: the clone has a fragment reuse index that may name them; None
            otherwise.
    """

    uri: str
    marks: Marks
    problem: str | None = None
    maps_unknown: str | None = None

    def __contains__(self, path: str) -> bool:
        return self.marks.user_of(path) is not None


def mark_clones(objects: NamedObjects, clones: Sequence[Store]) -> tuple[CloneMarks, ...]:
    """Find the files that clones use: all versions on all branches.

    Args:
        objects: Finds the objects of their managed blobs below the root of the dataset.
        clones: The clones.

    Raises:
        DatasetNotFoundError: There is no dataset at the URI of a clone.
        CorruptManifestError: A version of a clone cannot be read, so its files are unknown.
    """
    return tuple(_mark(objects, clone) for clone in clones)


def _mark(objects: NamedObjects, clone: Store) -> CloneMarks:
    marks = Marks()
    found = False
    problem: str | None = None
    maps: str | None = None
    for root in _roots(clone):
        for location in persistently(lambda root=root: all_manifests(root)):  # type: ignore[misc]
            found = True
            manifest = persistently(lambda: read_manifest(root, location))  # noqa: B023 - called at once
            marks.mark(_used_files(manifest, objects.root), manifest.version)
            if uses_tagged_reuse(manifest):
                maps = f"the clone {clone.uri} may use it"
            try:
                marks.mark(objects.of(root, location, manifest), manifest.version)
            except LanceOpsError as error:
                problem = problem or f"of version {manifest.version} of the clone {clone.uri}: {error}"
    if not found:
        raise DatasetNotFoundError("no dataset here: there is no manifest", path=clone.uri, field="clones")
    return CloneMarks(clone.uri, marks, problem, maps)


def _roots(clone: Store) -> Iterator[Store]:
    yield clone
    between = f"/{VERSIONS_DIRECTORY}/"
    # A single listing may be incomplete.
    paths = [info.path for _ in range(2) for info in persistently(lambda: list(clone.list(BRANCH_TREES)))]
    for folder in sorted({path.partition(between)[0] for path in paths if between in path}):
        yield clone.child(folder)


def _used_files(manifest: Manifest, source: str) -> Iterator[str]:
    # Path of each base below the source; a base elsewhere has no such folders.
    inside = {base.id: lead for base in manifest.base_paths if (lead := below(base.path, source)) is not None}
    flat = {base.id for base in manifest.base_paths if not base.is_dataset_root}
    for fragment in manifest.fragments:
        for base_id, folder, name in _fragment_files(fragment):
            if base_id in inside:
                yield inside[base_id] + (name if base_id in flat else f"{folder}/{name}")
    for index in manifest.indices:
        if index.base_id in inside:
            folder, _, name = index.directory.partition("/")
            yield inside[index.base_id] + (name if index.base_id in flat else f"{folder}/{name}")


def _fragment_files(fragment: Fragment) -> Iterator[tuple[int | None, str, str]]:
    for file in fragment.all_files:
        yield file.base_id, DATA_DIRECTORY, file.path
        # Large values in separate files are in a folder of the same name.
        yield file.base_id, DATA_DIRECTORY, file.path.removesuffix(".lance")
    deletion = fragment.deletion_file
    if deletion is not None:
        folder, _, name = deletion.path(fragment.id).partition("/")
        yield deletion.base_id, folder, name


def may_share_files(base: BasePath, root: str) -> bool:
    """Return whether a file in a base may be one of a dataset's own files, under another name.

    The root of the dataset itself, declared as a base for managed blobs, adds no other names. If no base may,
    only clones can name the files below the root of the dataset. Files of other bases are outside and are
    kept. A base with a relative path may.

    Args:
        base: Base of a version of the dataset.
        root: Root URI of the dataset or of one of its branches.
    """
    if is_own_root(base, root):
        return False
    try:
        if below(base.path, root) is not None:
            return True
        inside = below(root, base.path)
    except PathEscapeError:
        return True
    if inside is None:
        return False
    # The files of a dataset root are in folders with fixed names; a branch is beside these.
    return not base.is_dataset_root or inside.partition("/")[0] in (DATA_DIRECTORY, DELETIONS, INDICES)


def note_of(manifest: Manifest | None) -> str:
    """Return a note of the plan about files that it cannot find or does not remove.

    Args:
        manifest: The newest version, if known.
    """
    places = () if manifest is None else manifest.base_paths
    return _CLONES_NOTE + (_BASES_NOTE.format(", ".join(base.path for base in places)) if places else "")
