"""Schema of a data file: fields, logical types, extension types, and conversion of data."""
