"""Known differences: where the peer is wrong, or both are right in their ways, each with its reason."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownDifference:
    """One difference that is not counted as wrong.

    Attributes:
        method: Of the peer; a regular expression.
        found: How the comparison tells it; a regular expression.
        reason: Why lance_ops does otherwise.
    """

    method: str
    found: str
    reason: str


KNOWN = (
    KnownDifference(
        r".*",
        r"^no version for no change",
        "lance_ops commits no version where nothing changes",
    ),
    KnownDifference(
        r"write_dataset",
        r"metadata: ours .*index_columns\": \[\].*theirs .*index_columns\": \[\{\"kind\": \"range\"",
        "the range index of a DataFrame is not kept: no other write keeps it true",
    ),
    KnownDifference(
        r".*",
        r"^only under the limit",
        "a limit cuts ties anywhere, and the peer returns fewer rows where an index names rows that are gone",
    ),
    KnownDifference(
        r".*",
        r"^phrase by n-grams",
        "the peer finds each row with one of the n-grams of a phrase, in any order",
    ),
    KnownDifference(
        r".*",
        r"^fuzzy words where no index is",
        "among rows that no index covers, the peer looks for the exact words alone",
    ),
    KnownDifference(
        r".*",
        r"^phrase that repeats a word",
        "the peer does not find a phrase in which a word stands twice once it allows slop",
    ),
    KnownDifference(
        r"MergeInsertBuilder",
        r"^coverage of",
        "rows that a merge rewrites are read, and not looked up, until the indices are refreshed",
    ),
    KnownDifference(
        r"LanceDataset\.add_columns",
        r"metadata: ours .* theirs .*b'pandas'",
        "the peer describes the whole table to pandas by the new columns alone",
    ),
)


def known_reason(method: str, found: str) -> str | None:
    """The reason of a known difference; None for others.

    Args:
        method: Of the peer, such as `LanceDataset.take`.
        found: The difference in words.
    """
    for known in KNOWN:
        if re.search(known.method, method) and re.search(known.found, found, re.DOTALL):
            return known.reason
    return None
