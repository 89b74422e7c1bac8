"""Health: the numbers of a dataset, the policy that judges them, and its verdicts."""
