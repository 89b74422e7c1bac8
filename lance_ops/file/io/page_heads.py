"""Page heads: data that every read of a page needs, such as chunk positions, fetched and parsed once."""

from collections.abc import Hashable
from typing import Any

from lance_ops.cache import Cache


class PageHeads(Cache[Hashable, Any]):
    """Heads of the pages of one open file.

    Args:
        most: Heads that are kept at most; 0 where each page is read once.
    """

    __slots__ = ()

    def __init__(self, most: int | None = None) -> None:
        super().__init__("page heads", most)
