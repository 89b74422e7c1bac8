"""The manifest of a version and what it names: fragments, deletion vectors, row ids, indices, bases."""
