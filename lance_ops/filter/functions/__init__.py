"""Functions that a filter may call, by the kind of value that they take."""
