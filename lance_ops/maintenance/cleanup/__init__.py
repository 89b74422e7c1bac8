"""Cleanup of old versions and unused files."""
