"""Left over: files of a run that another run of the same job made useless, and who must look for that.

What is written under a job key bears the mark of the key in its name, and is committed under that key or not
at all. When a commit of the job is in the lineage of the newest version, files of the job that no version
uses can go at once (`lance_ops.maintenance.cleanup.jobs`). A cleanup announces them, then sees that the
newest version is still that one, then removes them. Only a restore after that version can undo the job, so
that a run that is still alive gets to commit what it wrote. It does so on a version that was not there when
the cleanup looked, hence after the announcement: so it looks for announcements and then for its files, after
it has read the version that it commits on. It finds one of the two, or the cleanup leaves its files alone.
"""

from collections.abc import Sequence

from lance_ops.storage import Store
from lance_ops.storage.retry import is_there
from lance_ops.table.history.pins import list_removals


def find_left_over(store: Store, paths: Sequence[str]) -> str | None:
    """A file that is gone or announced to go, of those that are about to be committed; None as a rule.

    To be asked by whoever carries files of a job over a restore, or commits them on another version than
    they were planned on, unless the job is done there; after that version was read.

    Args:
        store: Root of the dataset.
        paths: The files. Those of index segments are not looked for: they are never carried over a restore.
    """
    announced = {path for removal in list_removals(store) for path in removal.files}
    files = (path for path in paths if not path.endswith("/"))
    return next(
        (path for path in files if path in announced or not is_there(store, path)),
        None,
    )
