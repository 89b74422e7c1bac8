"""One dataset: manifest, fragments, transactions, commits and scans."""
