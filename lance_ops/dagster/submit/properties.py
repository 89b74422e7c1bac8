"""Secret Spark settings in a properties file instead of on a command line."""

import re
from collections.abc import Mapping
from pathlib import Path

PROPERTIES_FILE = "--properties-file"

# Names that Spark itself redacts in its logs and pages, and those of some stores.
_SECRET = re.compile(r"(?i)secret|password|passphrase|token|credential|access[.]?key|account[.]key")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_OF_NAMES = {**_ESCAPES, **{sign: f"\\{sign}" for sign in " =:#!"}}


def secret_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with secret names."""
    return {name: value for name, value in settings.items() if _SECRET.search(name)}


def write_properties(path: Path, settings: Mapping[str, str]) -> str:
    """Write settings as Java properties, readable by the owner alone, and return the path."""
    names, values = str.maketrans(_OF_NAMES), str.maketrans(_ESCAPES)
    lines = [f"{name.translate(names)}={value.translate(values)}\n" for name, value in settings.items()]
    path.touch(mode=0o600)
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)
