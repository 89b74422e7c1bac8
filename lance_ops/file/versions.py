"""Storage versions by name, by the numbers in a file's footer, and by those in a manifest.

How each is read and written is imported on demand: few processes meet more than one version.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

from lance_ops.errors import UnsupportedVersionError, check_type
from lance_ops.file.container import contents
from lance_ops.file.container.contents import Contents
from lance_ops.file.io.fetch import Steps
from lance_ops.file.layout import Layout


@cache
def _layout_0_1() -> Layout:
    from lance_ops.file.v0_1.layout import LAYOUT

    return LAYOUT


@cache
def _layout_2_0() -> Layout:
    from lance_ops.file.v2_0.layout import LAYOUT

    return LAYOUT


@cache
def _layout_2_1() -> Layout:
    from lance_ops.file.v2_1.layout import LAYOUT_2_1

    return LAYOUT_2_1


@cache
def _layout_2_2() -> Layout:
    from lance_ops.file.v2_1.layout import LAYOUT_2_2

    return LAYOUT_2_2


@cache
def _layout_2_3() -> Layout:
    from lance_ops.file.v2_1.layout import LAYOUT_2_3

    return LAYOUT_2_3


def _read_contents_0_1(end: bytes, size: int, path: str) -> Steps[Contents]:
    from lance_ops.file.v0_1.container import read_contents

    return read_contents(end, size, path)


@dataclass(frozen=True, slots=True)
class StorageVersion:
    """One storage version of data files.

    Attributes:
        name: As users write it, such as "2.0".
        footer: Major and minor number in the footer of a file. For 2.0 they are not the name's.
        manifest: Major and minor number in the manifest's entry for the file.
        load: Imports how to read and write it.
        read_contents: Opens a file, given its last bytes, its size and its path.
        is_written: True if new files can have it.
    """

    name: str
    footer: tuple[int, int]
    manifest: tuple[int, int]
    load: Callable[[], Layout]
    read_contents: Callable[[bytes, int, str], Steps[Contents]] = contents.read_contents
    is_written: bool = True

    @property
    def layout(self) -> Layout:
        """How to read and write it."""
        return self.load()

    def require_writable(self) -> Layout:
        """How to write it.

        Raises:
            UnsupportedVersionError: It is implemented only for reading.
        """
        if not self.is_written:
            raise UnsupportedVersionError(
                f"storage version {self.name} is read but not written",
                hint=f"copy the rows into a new dataset; what can be written: {_written()}",
            )
        return self.layout


DEFAULT_STORAGE_VERSION = "2.2"
"""Of new datasets: what pylance calls stable."""

ALIASES = {"legacy": "0.1", "stable": DEFAULT_STORAGE_VERSION, "next": "2.3"}
"""Names that pylance has for versions; "next" moves with its releases and is not for data to keep."""

VERSIONS = (
    StorageVersion("0.1", (0, 2), (0, 2), _layout_0_1, _read_contents_0_1, is_written=False),
    StorageVersion("2.0", (0, 3), (2, 0), _layout_2_0),
    StorageVersion("2.1", (2, 1), (2, 1), _layout_2_1),
    StorageVersion("2.2", (2, 2), (2, 2), _layout_2_2),
    StorageVersion("2.3", (2, 3), (2, 3), _layout_2_3),
)


def version_of_footer(major: int, minor: int, path: str) -> StorageVersion:
    """Return the storage version of a file with these numbers in its footer.

    Raises:
        UnsupportedVersionError: This version of lance_ops does not know it.
    """
    version = _find(major, minor)
    if version is None:
        raise _unsupported(f"{major}.{minor}", path)
    return version


def storage_version(name: str) -> StorageVersion:
    """Return the storage version of that name or alias.

    Raises:
        UnsupportedVersionError: There is none that this version of lance_ops knows.
    """
    check_type(name, str, "the name of a storage version", field="data_storage_version")
    for version in VERSIONS:
        if version.name == ALIASES.get(name, name):
            return version
    raise _unsupported(name, None)


@cache
def version_name(major: int, minor: int) -> str:
    """Return the name of the storage version that a manifest records with these numbers."""
    version = _find(major, minor)
    return f"{major}.{minor}" if version is None else version.name


@lru_cache(maxsize=64)
def _find(major: int, minor: int) -> StorageVersion | None:
    if is_legacy(major, minor):
        return VERSIONS[0]
    return next(
        (version for version in VERSIONS if (major, minor) in (version.manifest, version.footer)), None
    )


def is_legacy(major: int, minor: int) -> bool:
    """Return whether the numbers stand for 0.1: legacy tables do not record any, and 2.0 files are 0.3."""
    return major == 0 and minor <= 2


def _unsupported(name: str, path: str | None) -> UnsupportedVersionError:
    supported = ", ".join(version.name for version in VERSIONS)
    hint = f"what can be read: {supported}; what can be written: {_written()}"
    return UnsupportedVersionError(f"storage version {name} is not supported", path=path, hint=hint)


def _written() -> str:
    return ", ".join(version.name for version in VERSIONS if version.is_written)
