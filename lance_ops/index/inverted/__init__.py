"""INVERTED: tokens of strings with posting lists, for full-text search by BM25.

A segment consists of independent partitions: `part_N_tokens.lance` (words and their numbers),
`part_N_invert.lance` (for each word its documents, how often they hold it, and where) and `part_N_docs.lance`
(for each document its row and how many words it has). `metadata.lance` lists them and the tokenizer
parameters.
"""
