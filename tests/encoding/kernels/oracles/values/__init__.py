"""Reference loops: values of columns, and text."""
