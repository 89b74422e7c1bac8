"""Assessment: the verdict on a dataset, and cost and benefit of its due operations."""
