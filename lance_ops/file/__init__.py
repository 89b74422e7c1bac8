"""One `.lance` file: container, column metadata, page layouts, reader and writer."""
