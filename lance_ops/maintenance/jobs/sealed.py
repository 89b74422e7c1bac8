"""Record of a job: a small JSON object after a line with its kind, the version of its form and a checksum."""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from lance_ops.maintenance.jobs.forms import has_form
from lance_ops.storage import BytesLike

FORM = 1
"""Form of the written records; those of another form are ignored, like truncated ones."""

_MAGIC = "lance_ops job"


def seal(kind: str, values: Mapping[str, object]) -> bytes:
    """Write a record; the same bytes for equal values."""
    body = json.dumps(values, separators=(",", ":"), sort_keys=True).encode()
    return f"{_MAGIC} {kind} {FORM} {_digest(body)}\n".encode() + body


def unseal(kind: str, data: BytesLike) -> dict[str, Any] | None:
    """Return the values of a record; None if truncated, or of another kind or form (see `forms`).

    Such a record is no error: its work is repeated.
    """
    head, _, body = bytes(memoryview(data)).partition(b"\n")
    if head != f"{_MAGIC} {kind} {FORM} {_digest(body)}".encode():
        return None
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and has_form(kind, values) else None


def is_of_other_form(kind: str, data: BytesLike) -> bool:
    """Return whether a record that `unseal` rejects is complete, written by another release."""
    head, _, body = bytes(memoryview(data)).partition(b"\n")
    words = head.decode("ascii", "replace").split(" ")
    return words[:-2] == [*_MAGIC.split(" "), kind] and words[-1] == _digest(body)


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=8).hexdigest()
