"""Estimated and measured times of a compaction, as its commits record them and `history` shows them."""

import json
from collections.abc import Mapping
from contextlib import suppress

from lance_ops.maintenance.text import seconds_text

ACCURACY_KEY = "lance_ops.compaction.estimate"
"""Transaction property: the planned and the measured seconds of the tasks by way of rewriting, as JSON."""


def accuracy_text(properties: Mapping[str, str]) -> str:
    """Return the recorded times of a commit's tasks as text; empty without a readable record."""
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        noted = list(json.loads(properties.get(ACCURACY_KEY, "{}")).values())
        planned = sum(float(item["planned"]) for item in noted)
        measured = sum(float(item["measured"]) for item in noted)
        if noted:
            return f"tasks took {seconds_text(measured)}, planned {seconds_text(planned)}"
    return ""
