"""DAGs that show the operators."""
