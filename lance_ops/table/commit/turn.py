"""Turn of a commit: writers of one machine queue, so that a lost race does not cost each of them its work.

It decides nothing. Put-if-absent does, for writers that queue, for those that waited in vain, and for those
that know of no queue, such as the peer.
"""

import random
import time

from lance_ops.storage import Store
from lance_ops.storage.store import takes_turns
from lance_ops.table.manifest.naming import VERSIONS_DIRECTORY

_LONGEST_WAIT = 1.0
_LONGEST_PAUSE = 0.5
_SHORTEST_PAUSE = 0.01


class CommitTurn:
    """The turn of one commit, from looking for the newest version until the next one has its name.

    Args:
        store: Root of the dataset.
    """

    def __init__(self, store: Store) -> None:
        self._turn = store.turn(VERSIONS_DIRECTORY) if takes_turns(store) else None

    def begin(self) -> None:
        """Wait for it, where there are turns, as long as another writer's commit should take."""
        if self._turn is not None:
            self._turn.wait(_LONGEST_WAIT)

    def begin_again(self, attempt: int) -> None:
        """Prepare the next attempt after a race was lost: whoever has the turn need not wait for anybody."""
        if self._turn is not None and self._turn.is_held:
            return
        limit = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2**attempt)
        until = time.monotonic() + random.uniform(0.0, limit)  # noqa: S311 - spreads writers, no secret
        left = until - time.monotonic()
        if self._turn is None or not self._turn.wait(left):
            time.sleep(max(0.0, until - time.monotonic()))

    def end(self) -> None:
        """Let the next writer go on."""
        if self._turn is not None:
            self._turn.end()
