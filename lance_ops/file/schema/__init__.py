"""The schema of a data file: fields, logical types, extension types, and data brought into them."""
