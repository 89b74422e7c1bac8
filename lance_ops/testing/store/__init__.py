"""The suite of stores: objects, writers, names."""
