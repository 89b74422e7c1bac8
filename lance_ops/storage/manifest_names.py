"""Manifest names: two schemes, detached versions, and staged manifests of external manifest stores.

Source: format, "Manifest Naming Schemes".
"""

import re
from collections.abc import Iterable
from enum import Enum
from numbers import Integral

from lance_ops.errors import InvalidArgumentError, check_type

VERSIONS_DIRECTORY = "_versions"
DETACHED_BIT = 1 << 63
"""Set in the number of a version outside of the history; such versions are never listed."""

DETACHED = "d"
"""First character of the names of detached manifests, which are listed after all others."""

_MAX_VERSION = (1 << 64) - 1
_STAGED = re.compile(r"([0-9]{1,20}\.manifest)-.+", re.ASCII)
_NAME = re.compile(r"(d?)([0-9]{1,20})\.manifest", re.ASCII)


def staged_version(name: str) -> int | None:
    """Return the version of a staged manifest, `N.manifest-UUID`; None for any other file.

    Writers with an external manifest store (DynamoDB) write it first, and rename it after the store has
    accepted it.
    """
    match = _STAGED.fullmatch(name)
    found = None if match is None else parse_manifest_name(match[1])
    return None if found is None else found[0]


class NamingScheme(Enum):
    """Mapping of version numbers to file names.

    `V2` counts down from 2^64-1 in 20 digits, so that the newest version comes first in a listing.
    """

    V1 = 1
    V2 = 2


def is_detached(version: int) -> bool:
    """Return whether the version is outside of the history."""
    return bool(version & DETACHED_BIT)


def manifest_name(version: int, scheme: NamingScheme) -> str:
    """Return the file name of a manifest.

    Raises:
        InvalidArgumentError: The number is not an unsigned 64-bit one.
    """
    check_type(version, Integral, "a version number", field="version")
    if not 0 <= version <= _MAX_VERSION:
        raise InvalidArgumentError(f"{version} is not a version number", field="version")
    if is_detached(version):
        return f"d{version}.manifest"
    if scheme is NamingScheme.V1:
        return f"{version}.manifest"
    return f"{_MAX_VERSION - version:020d}.manifest"


def manifest_path(version: int, scheme: NamingScheme) -> str:
    """Return the path of a manifest, relative to the root of the dataset."""
    return f"{VERSIONS_DIRECTORY}/{manifest_name(version, scheme)}"


def parse_manifest_name(name: str) -> tuple[int, NamingScheme | None] | None:
    """Parse version and scheme from a file name.

    Returns:
        The version, with the scheme None for a detached one; None for any other file (staged manifests,
        temporary files, the version hint).
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    detached, digits = match.groups()
    number = int(digits)
    if number > _MAX_VERSION:
        return None
    if detached:
        return (number, None) if is_detached(number) else None
    # Twenty digits are V2: a V1 number of that length would have the detached bit set.
    if len(digits) == 20:
        version = _MAX_VERSION - number
        return None if is_detached(version) else (version, NamingScheme.V2)
    return None if is_detached(number) else (number, NamingScheme.V1)


def newest_staged(names: Iterable[str], above: int) -> str | None:
    """Return the name of the newest staged manifest of a version above another; None when there is none.

    Args:
        names: Of files in the folder of manifests, or their paths.
        above: The version.
    """
    found = (name.removeprefix(f"{VERSIONS_DIRECTORY}/") for name in names)
    staged = [(version, name) for name in found if (version := staged_version(name)) is not None]
    version, name = max(staged, default=(0, None))
    return name if version > above else None
