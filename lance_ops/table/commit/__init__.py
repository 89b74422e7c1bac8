"""Commit: conflict rules, rebase, the next manifest, publishing, and exactly-once job keys."""
