"""Ingest as assets: what a source is asked for, how rows come in, and the proof that they are there."""
