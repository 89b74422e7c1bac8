"""Fleet policy: stores, classes of datasets, thresholds, windows and budgets."""
