"""Reference loops: files of indices, and row addresses."""
