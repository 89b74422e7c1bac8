"""Discovery of the datasets below the stores of a policy."""
