"""INVERTED: the words of texts, each with the rows that hold it, for full-text search by BM25.

A segment is cut into partitions, which know nothing of each other: `part_N_tokens.lance` (words and their
numbers), `part_N_invert.lance` (for each word its documents, how often they hold it, and where) and
`part_N_docs.lance` (for each document its row and how many words it has). `metadata.lance` lists them and
says how texts are cut into words.
"""
