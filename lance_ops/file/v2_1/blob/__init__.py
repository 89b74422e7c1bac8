"""Blob pages: values that lie apart from their page."""
