"""Graph (HNSW): the neighbours of each row of a partition, built, and edited along with a rewrite."""
