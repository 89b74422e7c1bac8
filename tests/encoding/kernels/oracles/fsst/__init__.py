"""Oracles: strings compressed by a table of symbols."""
