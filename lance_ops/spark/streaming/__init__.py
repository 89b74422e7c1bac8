"""Streaming: the stream reader and the stream writer of the format `lance`."""
