"""NGRAM: for each run of three alphanumeric characters the rows whose string has it.

One Lance file a segment: `ngram_postings.lance` (`tokens`, `posting_list`), ascending by token.
"""
