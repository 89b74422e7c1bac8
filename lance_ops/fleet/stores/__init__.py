"""Stores of a fleet, with request counts and rate limits."""
