"""Forecast: when what is due, whether the budget suffices, and how far estimates were off."""
