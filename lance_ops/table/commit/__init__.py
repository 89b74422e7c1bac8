"""The commit: conflict rules, rebase, the next manifest, publishing it, and exactly once."""
