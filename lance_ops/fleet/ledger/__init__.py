"""Ledger: observations of datasets and operations on them, in Lance datasets."""
