"""Types of a filter: names in SQL and Arrow, in which type two operands meet, conversions, strings."""
