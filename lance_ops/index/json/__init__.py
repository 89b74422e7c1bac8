"""JSON: an index of another kind over the values at one path of documents.

Its files are those of the other kind; the details name the path and the other kind.
"""
