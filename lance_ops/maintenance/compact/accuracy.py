"""Record of a compaction in its commits: its rule, and estimated and measured times, for `history`."""

import json
from collections.abc import Mapping
from contextlib import suppress

from lance_ops.maintenance.text import seconds_text

ACCURACY_KEY = "lance_ops.compaction.estimate"
"""Transaction property: the planned and the measured seconds of the tasks by way of rewriting, as JSON."""

RULE_KEY = "lance_ops.compaction.rule"
"""Transaction property: the rule by which the fragments were chosen, see `CompactionOptions.rule`."""


def compaction_text(properties: Mapping[str, str]) -> str:
    """Return the rule and the times that a commit of a compaction recorded; empty without a record."""
    rule = properties.get(RULE_KEY, "")
    return "; ".join(filter(None, (rule and f"by {rule}", accuracy_text(properties))))


def accuracy_text(properties: Mapping[str, str]) -> str:
    """Return the recorded times of a commit's tasks as text; empty without a readable record."""
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        noted = list(json.loads(properties.get(ACCURACY_KEY, "{}")).values())
        planned = sum(float(item["planned"]) for item in noted)
        measured = sum(float(item["measured"]) for item in noted)
        if noted:
            return f"tasks took {seconds_text(measured)}, planned {seconds_text(planned)}"
    return ""
