"""Structured Streaming: source and sink of the format `lance`."""
