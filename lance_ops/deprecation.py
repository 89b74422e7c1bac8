"""Deprecation: names that still work for one release, and say which name to use."""

import warnings


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn whoever calls the caller of this that a name goes with the next release.

    Args:
        old: What they wrote.
        new: What to write.
        stacklevel: Frames up to the line to blame; 3 is the caller of the function that calls this.
    """
    warnings.warn(
        f"{old} is now {new}, and goes with the next release", DeprecationWarning, stacklevel=stacklevel
    )
