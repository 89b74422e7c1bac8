"""Ref file: the small JSON object of a tag or a branch, below `_refs/` of the main root."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from urllib.parse import unquote

from lance_ops.errors import CorruptManifestError, InvalidArgumentError, LanceOpsError
from lance_ops.storage import Store, is_temporary
from lance_ops.storage.retry import unless_gone

SUFFIX = ".json"

_LONGEST_NAME = 255
"""Maximum bytes of a file name on common file systems; datasets may be copied there from stores without
limit.
"""

_NAMED = 20
"""Maximum number of refs listed in an error."""
_PLURALS = {"tag": "tags", "branch": "branches"}

_FRACTION = re.compile(r"\.([0-9]{1,9})(?=Z|[+-])")


class RefFile:
    """Typed access to the JSON object of a ref file.

    Args:
        path: Of the file, for errors.
        values: The object.
    """

    def __init__(self, path: str, values: dict[str, object]) -> None:
        self.path = path
        self._values = values

    def number(self, key: str, default: int | None = None) -> int:
        """Return a non-negative number."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.damaged(key, value)
        return value

    def text(self, key: str) -> str | None:
        """Return a string; None when there is none."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.damaged(key, value)
        return value

    def time(self, key: str) -> datetime | None:
        """Return a timestamp; None when there is none."""
        text = self.text(key)
        if text is None:
            return None
        try:
            # pylance writes nanoseconds, which datetime does not parse.
            moment = datetime.fromisoformat(_FRACTION.sub(lambda match: f".{match[1]:0<6.6}", text))
        except ValueError as error:
            raise self.damaged(key, text) from error
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def texts(self, key: str) -> dict[str, str]:
        """Return a map of strings; empty when there is none."""
        value = self._values.get(key) or {}
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.damaged(key, value)
        return value

    def lineage(self) -> tuple[tuple[int, str], ...]:
        """Return the (version, id) of each fork; empty when there is none."""
        try:
            identifier = self._values.get("identifier") or {"version_mapping": []}
            return tuple((int(version), str(mark)) for version, mark in identifier["version_mapping"])  # type: ignore[index]
        except (TypeError, ValueError, KeyError) as error:
            raise self.damaged("identifier", self._values.get("identifier")) from error

    def damaged(self, key: str, value: object) -> CorruptManifestError:
        """Return the error for an invalid value."""
        return CorruptManifestError(f"{key} is {value!r}", path=self.path, field=key)


def check_ref_length(path: str, what: str, *, field: str) -> None:
    """Refuse a name that is too long for a file, before anything is created for it.

    Args:
        path: Of the ref file.
        what: Kind of ref, for the message.
        field: Argument with the name.

    Raises:
        InvalidArgumentError: It is too long.
    """
    size = len(path.rpartition("/")[2].encode())
    if size > _LONGEST_NAME:
        raise InvalidArgumentError(
            f"the name of the {what} is too long: its file name would have {size} bytes, and file "
            f"systems allow {_LONGEST_NAME}",
            field=field,
        )


def load_ref(root: Store, path: str) -> RefFile:
    """Read a ref.

    Raises:
        CorruptManifestError: It is not a JSON object.
        FileMissingError: There is none.
    """
    full = f"{root.uri}/{path}"
    try:
        values = json.loads(bytes(root.read(path)))
    except (ValueError, RecursionError) as error:
        raise CorruptManifestError(f"not valid JSON: {error}", path=full) from error
    if not isinstance(values, dict):
        raise CorruptManifestError("not a JSON object", path=full)
    return RefFile(full, values)


def listed_refs(root: Store, directory: str) -> Iterator[tuple[str, RefFile]]:
    """Read the refs in a folder: name as spelled by the file, and content.

    A ref that is removed after the listing is left out.

    Raises:
        CorruptManifestError: A ref is not a JSON object.
        InconsistentStoreError: A ref is listed and is not found.
    """
    for name, path in ref_files(root, directory):
        found = unless_gone(root, path, partial(load_ref, root, path))
        if found is not None:
            yield name, found


def ref_files(root: Store, directory: str) -> Iterator[tuple[str, str]]:
    """List the refs in a folder: name as spelled by the file, and path."""
    for info in root.list(directory):
        name = info.path.removeprefix(f"{directory}/")
        if name.endswith(SUFFIX) and "/" not in name and not is_temporary(name):
            yield name.removesuffix(SUFFIX), info.path


def names_hint(root: Store, directory: str, what: str) -> str:
    """Return a hint that lists existing refs, for an error about a missing one.

    Args:
        root: Main root of the dataset.
        directory: Of the refs.
        what: Kind of ref.
    """
    try:
        names = sorted(unquote(name) for name, _ in ref_files(root, directory))
    except LanceOpsError:
        return f"its {_PLURALS[what]} cannot be listed"
    if not names:
        return f"the dataset has no {_PLURALS[what]}"
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"its {_PLURALS[what]}: {', '.join(names[:_NAMED])}{more}"


def time_text(moment: datetime | None) -> str | None:
    """Format a timestamp as pylance does; None stays None."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
