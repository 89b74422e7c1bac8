"""Blob pages: values that are stored outside of their page."""
