"""The fragment reuse index: where rows went in compactions that left the indices as they were."""
