"""Alerts: what of a fleet people are told, whom, and that each of it arrives."""
