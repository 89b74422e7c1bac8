"""Column files: the data files of each fragment become one, without columns that the table dropped."""
