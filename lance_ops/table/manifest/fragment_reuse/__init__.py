"""Fragment reuse index: row maps of compactions that did not remap the indices."""
