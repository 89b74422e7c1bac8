"""The fragments of a version as a list: objects where they are few, numbers and bytes where many."""
