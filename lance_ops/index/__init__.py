"""Index kinds, their segments and their coverage."""
