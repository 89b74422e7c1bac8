"""Reading: projection, plan, pruning, the rows of a fragment, and single rows."""
