"""Alerts of a fleet: evaluation of the ledger, and delivery."""
