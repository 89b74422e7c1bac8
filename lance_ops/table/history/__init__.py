"""Versions: tags and branches, which version a caller means, what each did, and who pins them."""
