"""Distributed writes: tasks of any engine write fragments, and one commit makes a version of them."""
