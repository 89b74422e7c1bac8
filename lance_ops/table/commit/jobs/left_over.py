"""Leftover files: files of a run that another run of the same job made obsolete.

Files written under a job key have the mark of the key in their name, and are committed under that key or not
at all. Once a commit of the job is in the lineage of the newest version, unused files of the job can be
removed immediately (`lance_ops.maintenance.cleanup.jobs`). A cleanup announces them, checks that the newest
version is unchanged, then removes them. Only a later restore can undo the job, so that a live run may commit
its files. Such a run commits on a version created after the check of the cleanup, hence after the
announcement: it reads the version that it commits on, then checks for announcements, then for its files. It
finds one of the two, or the cleanup has left its files alone.
"""

from collections.abc import Sequence

from lance_ops.storage import Store
from lance_ops.storage.retry import is_there
from lance_ops.table.history.pins import list_removals


def find_left_over(store: Store, paths: Sequence[str]) -> str | None:
    """Return one of the files to be committed that is removed or announced for removal; usually None.

    Call it, after reading the new version, whenever files of a job are carried over a restore or committed on
    another version than planned, unless the job is done there.

    Args:
        store: Root of the dataset.
        paths: The files. Files of index segments are not checked: they are never carried over a restore.
    """
    announced = {path for removal in list_removals(store) for path in removal.files}
    files = (path for path in paths if not path.endswith("/"))
    return next(
        (path for path in files if path in announced or not is_there(store, path)),
        None,
    )
