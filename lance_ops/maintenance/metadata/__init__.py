"""Metadata operations: restore, config, dropped columns, tags, branches, clones."""
