"""NGRAM: for each run of three letters or digits the rows whose text has it.

One Lance file a segment: `ngram_postings.lance` (`tokens`, `posting_list`), ascending by token.
"""
