"""Reference loops: strings compressed by a table of symbols."""
