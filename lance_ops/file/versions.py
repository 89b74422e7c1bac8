"""Storage versions by name, by the numbers in a file's footer, and by those in a manifest."""

from dataclasses import dataclass

from lance_ops.errors import UnsupportedVersionError
from lance_ops.file.layout import Layout
from lance_ops.file.v2_0.layout import LAYOUT as LAYOUT_2_0


@dataclass(frozen=True, slots=True)
class StorageVersion:
    """One storage version of data files.

    Attributes:
        name: As users write it, such as "2.0".
        footer: Major and minor number in the footer of a file. For 2.0 they are not the name's.
        manifest: Major and minor number in the manifest's entry for the file.
        layout: How to read and write it, None for a version that is known but not implemented.
    """

    name: str
    footer: tuple[int, int]
    manifest: tuple[int, int]
    layout: Layout | None = None

    def require_layout(self, path: str | None = None) -> Layout:
        """How to read and write it.

        Args:
            path: For the error.

        Raises:
            UnsupportedVersionError: It is not implemented.
        """
        if self.layout is None:
            raise _unsupported(self.name, path)
        return self.layout


VERSIONS = (
    StorageVersion("0.1", (0, 2), (0, 2)),
    StorageVersion("2.0", (0, 3), (2, 0), LAYOUT_2_0),
    StorageVersion("2.1", (2, 1), (2, 1)),
    StorageVersion("2.2", (2, 2), (2, 2)),
    StorageVersion("2.3", (2, 3), (2, 3)),
)


def layout_of_footer(major: int, minor: int, path: str) -> Layout:
    """How to read a file with these numbers in its footer.

    Raises:
        UnsupportedVersionError: This version of lance_ops cannot; the storage version is named.
    """
    for version in VERSIONS:
        if (major, minor) in (version.footer, version.manifest):
            return version.require_layout(path)
    raise _unsupported(f"{major}.{minor}", path)


def storage_version(name: str) -> StorageVersion:
    """The storage version of that name.

    Raises:
        UnsupportedVersionError: There is none that this version of lance_ops knows.
    """
    for version in VERSIONS:
        if version.name == name:
            return version
    raise _unsupported(name, None)


def version_name(major: int, minor: int) -> str:
    """Name of the storage version that a manifest records with these numbers.

    Args:
        major: 0 with minor 0 is what tables of the first age have for 0.1.
        minor: See major.
    """
    if (major, minor) == (0, 0):
        return "0.1"
    for version in VERSIONS:
        if (major, minor) in (version.manifest, version.footer):
            return version.name
    return f"{major}.{minor}"


def _unsupported(name: str, path: str | None) -> UnsupportedVersionError:
    supported = ", ".join(version.name for version in VERSIONS if version.layout is not None)
    return UnsupportedVersionError(
        f"storage version {name} is not supported", path=path, hint=f"supported: {supported}"
    )
