"""Fleet: all datasets of a policy file as assets, one job that maintains what is due, and a report."""
