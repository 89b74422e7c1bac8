"""Input and output of a data file: steps that ask for ranges, row selections, pending rows, side files."""
