"""Distributed writes: tasks of any engine write fragments, which one commit adds as a version."""
