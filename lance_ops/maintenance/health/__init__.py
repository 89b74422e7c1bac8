"""Health: measured numbers of a dataset, policy, and verdicts."""
