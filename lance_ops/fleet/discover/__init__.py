"""Discovery: which datasets lie below the stores of a policy."""
