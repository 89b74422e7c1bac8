"""Test suite for stores: objects, writers, names."""
