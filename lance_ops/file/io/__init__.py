"""Input and output of a data file: decoding steps, row selections, pending rows, side files."""
