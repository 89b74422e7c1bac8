"""Fsck of fragments: columns, deletions, row counts and versions agree with manifest and files.

Fsck of a manifest: description of a version that cannot be opened or scanned, and its repair.
"""

from collections.abc import Callable, Generator, Iterator, Sequence

import numpy as np

from lance_ops.encoding.distinct import distinct
from lance_ops.errors import FormatError, InvalidArgumentError, LanceOpsError, NotFoundError, UnsupportedError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Field
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.maintenance.fsck.schema import stored_types
from lance_ops.storage import Store
from lance_ops.table.commit.damaged_head import newest_sound_version
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS, UNASSIGNED, DataFile
from lance_ops.table.manifest.deletion_vector import read_deletion_vector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.data_files import iter_data_files
from lance_ops.table.manifest.fragments.fragment_list import FragmentList, lacks_row_counts
from lance_ops.table.manifest.fragments.totals import fragments_at, kinds_of, numbers_of
from lance_ops.table.manifest.listing import ManifestLocation, latest, locate
from lance_ops.table.manifest.row_counts import count_rows
from lance_ops.table.row_lineage.read import lineage_file


def check_deletions(dataset: Dataset) -> Iterator[Finding]:
    """Check that every deletion file is readable, with the recorded number of offsets of existing rows."""
    fragments = dataset.manifest.fragments
    for fragment in fragments_at(fragments, np.flatnonzero(numbers_of(fragments).has_deletions).tolist()):
        try:
            if lacks_row_counts(fragment) or dataset.manifest.may_miscount:
                count_rows(dataset.bases, fragment)
            else:
                # Reading compares the count and the range with the manifest.
                read_deletion_vector(dataset.bases, fragment)
        except LanceOpsError as error:
            message = f"deletions of fragment {fragment.id}: {error.message}"
            yield Finding("deletion_vectors_valid", Severity.ERROR, message, error.path)


def check_fragments(dataset: Dataset) -> Iterator[Finding]:
    """Check that fragments have their own files and rows, and every column and sequence one location."""
    known = {field.id for field in dataset.lance_schema.walk()}
    required = [field for field in dataset.lance_schema.fields if not field.nullable]
    fragments = dataset.manifest.fragments
    numbers = numbers_of(fragments).ids
    if bool((numbers[1:] < numbers[:-1]).any()):
        message = "fragments are not in the order of their ids, and pylance cannot open the version"
        yield Finding("fragments_consistent", Severity.ERROR, message, dataset.location.path)
    owners: dict[tuple[int | None, str], int] = {}
    for fragment in _doubtful(fragments, lambda fragment: [*_layout_findings(fragment, known, required)]):
        for key in dict.fromkeys((file.base_id, file.path) for file in fragment.all_files):
            owner = owners.setdefault(key, fragment.id)
            if owner != fragment.id:
                message = (
                    f"fragments {owner} and {fragment.id} share a data file, so that its rows occur twice"
                )
                yield Finding("fragments_consistent", Severity.ERROR, message, key[1])
        if fragment.num_rows < 0 and not lacks_row_counts(fragment):
            message = f"fragment {fragment.id} has more deleted rows than rows"
            yield Finding("fragments_consistent", Severity.ERROR, message)
        yield from _layout_findings(fragment, known, required)


def _layout_findings(fragment: Fragment, known: set[int], required: Sequence[Field]) -> Iterator[Finding]:
    """Check what follows from the fields and columns of the data files."""
    yield from _column_findings(fragment, known)
    yield from _absence_findings(fragment, required)
    yield from _lineage_findings(fragment)


def _doubtful(
    fragments: Sequence[Fragment], findings: Callable[[Fragment], Sequence[Finding]]
) -> Sequence[Fragment]:
    """Return the fragments in which something may be wrong, in order: few of many as a rule.

    Args:
        fragments: Of the version.
        findings: Checks a fragment, with the same result for all of one kind.
    """
    if not isinstance(fragments, FragmentList):
        return fragments
    doubtful = numbers_of(fragments).live_rows < 0
    paths: set[str] = set()
    files = 0
    for part in iter_data_files(fragments):
        doubtful[part.others] = True
        others = (file.path for place in part.others.tolist() for file in fragments[place].all_files)
        for found in (part.paths, list(others)):
            paths.update(found)
            files += len(found)
    if len(paths) < files:
        # Any two fragments may share a file.
        return fragments
    kinds = kinds_of(fragments)
    bad = [place for place in distinct(kinds).tolist() if findings(fragments[place])]
    return fragments_at(fragments, np.flatnonzero(doubtful | np.isin(kinds, bad)).tolist())


def check_rows(dataset: Dataset) -> Iterator[Finding]:
    """Check that every data file opens, with the rows and columns of the manifest."""
    # As recorded: if missing or wrong, the dataset itself reads the files.
    for fragment in dataset.manifest.fragments:
        expected = fragment.physical_rows
        for file in fragment.files:
            rows = yield from _file_findings(dataset, fragment, file, expected)
            # Legacy writers recorded no number, and then all files must have the same.
            expected = expected or rows
        for overlay in fragment.overlays:
            try:
                coverage = overlay.coverage(fragment.physical_rows)
            except LanceOpsError as error:
                message = f"an overlay of fragment {fragment.id}: {error.message}"
                yield Finding("rows_match", Severity.ERROR, message, error.path)
                continue
            # A file has as many rows as its longest column.
            length = max(map(len, coverage.values()), default=0)
            yield from _file_findings(dataset, fragment, overlay.file, length)


def _file_findings(
    dataset: Dataset, fragment: Fragment, file: DataFile, expected: int
) -> Generator[Finding, None, int]:
    """Check a file; returns its rows, 0 if it does not open.

    Args:
        dataset: The version.
        fragment: The fragment of the file.
        file: A data file or an overlay file.
        expected: Expected rows; 0 if not recorded.
    """
    path = file.path
    try:
        store, path = dataset.bases.data_path(file)
        reader = FileReader.open(store, path, size=file.size_bytes or None)
    except LanceOpsError as error:
        # Unsupported files may be sound.
        severity = Severity.WARNING if isinstance(error, UnsupportedError) else Severity.ERROR
        yield Finding("rows_match", severity, error.message, path)
        return 0
    if reader.version != file.storage_version:
        message = f"a file has version {reader.version}, the manifest records {file.storage_version}"
        yield Finding("rows_match", Severity.WARNING, message, path)
    rows = reader.num_rows
    if expected and rows != expected:
        message = f"{rows:,} rows, expected {expected:,} in fragment {fragment.id}"
        yield Finding("rows_match", Severity.ERROR, message, path)
    # Files of 0.1 have other column metadata.
    columns = zip(file.fields, file.column_indices, strict=False) if file.column_indices else ()
    names = {node.id: node.name for node in dataset.lance_schema.walk()}
    said, stored = stored_types(dataset.lance_schema), stored_types(reader.schema)
    own = reader.own_columns if columns else {}
    for field_id, index in columns:
        if index < 0 or (field_id not in names and field_id not in LINEAGE_FIELDS.values()):
            continue
        field = f"field {names[field_id]!r} ({field_id})" if field_id in names else f"field {field_id}"
        if index >= reader.num_columns:
            message = (
                f"{field} of fragment {fragment.id} is in column {index} by the manifest, but the file has "
                f"{reader.num_columns} columns; restore an older version"
            )
            yield Finding("rows_match", Severity.ERROR, message, path)
            continue
        try:
            reader.parse_column(index)
        except LanceOpsError as error:
            severity = Severity.WARNING if isinstance(error, UnsupportedError) else Severity.ERROR
            message = f"cannot read column {index} with {field} of fragment {fragment.id}: {error.message}"
            yield Finding("rows_match", severity, message, path)
            continue
        one, other = said.get(field_id), stored.get(own.get(index, UNASSIGNED))
        if one is not None and other is not None and one != other:
            message = (
                f"{field} of fragment {fragment.id} is {' of '.join(one)} by the manifest, but column "
                f"{index} of the file is {' of '.join(other)}; restore an older version"
            )
            yield Finding("rows_match", Severity.ERROR, message, path)
    return rows


def check_doubtful_counts(dataset: Dataset) -> Iterator[Finding]:
    """Check counts of writers that are known to miscount against the files."""
    recorded, counted = dataset.manifest.fragments, dataset.fragments
    hint = "the next commit of pylance corrects it, such as dataset.delete('false')"
    for before, now in zip(recorded, counted, strict=True):
        for what, number, right in (
            ("rows", before.physical_rows, now.physical_rows),
            ("deleted rows", before.num_deleted_rows, now.num_deleted_rows),
        ):
            if number and number != right:
                message = (
                    f"the manifest records {number:,} {what} for fragment {before.id} instead of {right:,}; "
                    f"{hint}"
                )
                yield Finding("rows_match", Severity.ERROR, message)


def _column_findings(fragment: Fragment, known: set[int]) -> Iterator[Finding]:
    seen: set[int] = set()
    for file in fragment.files:
        try:
            file.check_columns()
        except LanceOpsError as error:
            message = f"a data file of fragment {fragment.id}: {error.message}"
            yield Finding("fragments_consistent", Severity.ERROR, message, file.path)
        if UNASSIGNED in file.fields:
            message = f"fragment {fragment.id} has a column with an unknown field"
            yield Finding("fragments_consistent", Severity.ERROR, message, file.path)
        live = {field_id for field_id in file.fields if field_id >= 0 and field_id in known}
        twice = sorted(live & seen)
        if twice:
            message = f"fragment {fragment.id} has two files for fields {twice}"
            yield Finding("fragments_consistent", Severity.ERROR, message, file.path)
        seen |= live


def _absence_findings(fragment: Fragment, required: Sequence[Field]) -> Iterator[Finding]:
    """Check that a fragment has files, and values of columns that cannot be null."""
    if not fragment.files:
        message = f"fragment {fragment.id} has no data files, and pylance cannot read it; compact writes one"
        yield Finding("fragments_consistent", Severity.ERROR, message)
        return
    stored = {number for file in fragment.files for number in file.fields}
    for field in required:
        if not any(node.id in stored for node in field.walk()):
            message = (
                f"fragment {fragment.id} has no values of column {field.name!r}, which is not nullable: "
                "pylance cannot read it; make the column nullable, or restore an older version"
            )
            yield Finding("fragments_consistent", Severity.ERROR, message)


def _lineage_findings(fragment: Fragment) -> Iterator[Finding]:
    for name in fragment.spilled:
        try:
            lineage_file(fragment, name)
        except LanceOpsError as error:
            yield Finding("fragments_consistent", Severity.ERROR, error.message, error.path)


def location_of(store: Store, version: int | str | None) -> ManifestLocation | None:
    """Return the location of the manifest of a version; None for a tag."""
    if isinstance(version, str):
        return None
    return latest(store) if version is None else locate(store, version)


def describe_damage(store: Store, location: ManifestLocation, error: LanceOpsError) -> str:
    """Describe a version that cannot be opened, and name a sound one."""
    field = f" ({error.field})" if error.field else ""
    what = f"cannot open version {location.version}: {error.message}{field}"
    if latest(store).version != location.version:
        return what
    sound = newest_sound_version(store, location.version)
    if sound is None:
        return f"{what}; no older version opens either"
    return f"{what}; version {sound.version} opens, and restore makes it the newest one"


def scan_problem(dataset: Dataset) -> FormatError | None:
    """Return why rows cannot be read although the manifest opens; None if nothing is known."""
    try:
        # Plans only; no row is read. What the manifest says of each fragment was checked when it was opened.
        dataset.scanner(limit=0)
    except FormatError as error:
        return error
    except (UnsupportedError, InvalidArgumentError, NotFoundError):
        # Unsupported rows or missing files are reported by other checks one by one.
        return None
    return None
