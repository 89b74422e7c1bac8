"""Fleet policy: which datasets there are, what each may become, and when and how much may be spent on it."""
