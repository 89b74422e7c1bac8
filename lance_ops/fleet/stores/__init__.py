"""Stores of a fleet: opened once, with their requests counted and kept to a rate."""
