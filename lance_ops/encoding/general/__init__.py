"""General compression of whole buffers."""
